import { readFileSync } from 'node:fs'
import type { Memory, Remembered } from '../reconcilers/remembered.ts'
import { writeAtomically } from './write-atomically.ts'

/** A file that cannot be read counts as empty, and is told: nothing in it is worth a refusal to start. */
export function openRememberedFile(path: string, onWarning: (text: string) => void): Remembered {
  let memories = read(path, onWarning)
  let written = ''
  return {
    get: uid => memories.get(uid),
    replace(fresh) {
      memories = fresh
      const text = JSON.stringify(Object.fromEntries(fresh))
      if (text === written) return
      writeAtomically(path, text)
      written = text
    },
  }
}

function read(path: string, onWarning: (text: string) => void): ReadonlyMap<string, Memory> {
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch {
    return new Map()
  }
  try {
    return new Map(Object.entries(JSON.parse(text) as Record<string, Memory>))
  } catch (error) {
    onWarning(`${path} cannot be read and counts as empty: ${(error as Error).message}`)
    return new Map()
  }
}
