import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { isRateLimitDomain } from '../reconcilers/is-rate-limit-domain.ts'
import type { Memory, Remembered } from '../reconcilers/remembered.ts'
import { writeAtomically } from './write-atomically.ts'

/** Where the operator with this state remembers. */
export function rememberedPath(stateDir: string): string {
  return join(stateDir, 'remembered.json')
}

/**
 * What is remembered, in a file of JSON, and as it was before in `<path>.1`, which counts when the file itself
 * cannot be read. When neither can, nothing is remembered; an entry that is not of our making is passed over.
 * All of that is told, for nothing in it is worth a refusal to start.
 */
export function openRememberedFile(path: string, onWarning: (text: string) => void): Remembered {
  let memories = read([path, `${path}.1`], onWarning)
  let isWritten = true
  return {
    all: () => memories,
    replace(fresh) {
      if (isWritten && isSame(fresh, memories)) return
      // What is in force is known here first: a disk that is full must not bring an older version back.
      memories = fresh
      isWritten = false
      writeAtomically(path, `${JSON.stringify(Object.fromEntries(fresh))}\n`, `${path}.1`)
      isWritten = true
    },
  }
}

/** Contents are the same objects until they change, so that nothing large is compared. */
function isSame(a: ReadonlyMap<string, Memory>, b: ReadonlyMap<string, Memory>): boolean {
  if (a.size !== b.size) return false
  for (const [uid, { firstSeenMs, origin, lastGood, lastGoodGeneration }] of a) {
    const other = b.get(uid)
    if (other?.firstSeenMs !== firstSeenMs || other.origin !== origin) return false
    if (other.lastGood !== lastGood || other.lastGoodGeneration !== lastGoodGeneration) return false
  }
  return true
}

/** The first of the files that can be read. */
function read(paths: readonly string[], onWarning: (text: string) => void): ReadonlyMap<string, Memory> {
  const [path, ...others] = paths
  if (path === undefined) return new Map()
  let entries: [string, unknown][]
  try {
    entries = Object.entries(JSON.parse(readFileSync(path, 'utf8')) as object)
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT') onWarning(`${path} cannot be read: ${message}`)
    return read(others, onWarning)
  }
  const memories = new Map<string, Memory>()
  for (const [uid, entry] of entries) {
    if (isMemory(entry)) memories.set(uid, entry)
    else onWarning(`${path}: what it says of ${uid} is not of this version's form and is passed over`)
  }
  return memories
}

type Fields<T> = { readonly [K in keyof T]?: unknown }

function isMemory(value: unknown): value is Memory {
  if (!isObject<Memory>(value)) return false
  const { firstSeenMs, origin, lastGood, lastGoodGeneration } = value
  if (!Number.isFinite(firstSeenMs) || typeof origin !== 'string') return false
  if (lastGoodGeneration !== undefined && !Number.isSafeInteger(lastGoodGeneration)) return false
  return lastGood === undefined || isRateLimitDomain(lastGood)
}

function isObject<T>(value: unknown): value is Fields<T> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}
