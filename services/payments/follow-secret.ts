import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'

const maxSecretBytes = 4_096

interface FollowSecretOptions {
  readonly first: string
  /** The file of the secret; undefined for a secret that does not change. */
  readonly path: string | undefined
  /** Called once with each reason why a changed file is not used. The text does not contain the secret. */
  readonly onWarning: (text: string) => void
}

/**
 * Returns a function that returns the present secret. It reads the file at each call, so that a new secret
 * applies at once. While the file is missing, empty or unreadable, it returns the last valid secret.
 */
export function watchSecret({ first, path, onWarning }: FollowSecretOptions): () => string {
  if (path === undefined) return () => first
  let current = first
  let warned = ''
  const warn = (problem: string) => {
    if (problem !== '' && problem !== warned)
      onWarning(`${path}: ${problem}; the secret before it is still used`)
    warned = problem
  }
  return () => {
    try {
      const found = readBoundedFile(path, maxSecretBytes)
        .toString('utf8')
        .replace(/\r?\n$/, '')
      if (found !== '') current = found
      warn(found === '' ? 'it is empty' : '')
    } catch (error) {
      warn((error as Error).message)
    }
    return current
  }
}

const secretBytes = 32

/**
 * Returns the secret of the setting or, if that is empty, the secret in the file, which is created with a
 * random secret at the first start. Only its owner can read the file.
 *
 * @param set the value of the setting; empty if it is not set
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
