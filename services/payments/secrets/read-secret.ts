import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const secretBytes = 32

/**
 * A secret of this service: the setting's, or one that is made at the first start and kept in the folder, for
 * this user only.
 *
 * @param set empty where the setting is not made
 */
export function readSecret(set: string, folder: string, fileName: string): Uint8Array {
  if (set !== '') return Buffer.from(set, 'utf8')
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const file = join(folder, fileName)
  try {
    writeFileSync(file, randomBytes(secretBytes).toString('hex'), { flag: 'wx', mode: 0o600 })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
  }
  return Buffer.from(readFileSync(file, 'utf8'), 'utf8')
}
