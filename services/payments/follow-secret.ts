import { randomBytes } from 'node:crypto'
import { mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'

const maxSecretBytes = 4_096

interface FollowSecretOptions {
  /** The secret that was read at the start. */
  readonly first: string
  /** The file of the secret, without a line feed at its end; undefined for a secret that does not change. */
  readonly path: string | undefined
  /** Called with the reason why a changed file is not used, without the secret; once for each reason. */
  readonly onWarning: (text: string) => void
}

/**
 * Returns a function that returns the current secret. It reads the file at each call, so that a new secret
 * applies from the next request. While the file is missing, empty or unreadable, the last secret stays in
 * force.
 */
export function watchSecret({ first, path, onWarning }: FollowSecretOptions): () => string {
  if (path === undefined) return () => first
  let current = first
  let told = ''
  const tell = (problem: string) => {
    if (problem !== '' && problem !== told)
      onWarning(`${path}: ${problem}; the secret before it is still used`)
    told = problem
  }
  return () => {
    try {
      const found = readBoundedFile(path, maxSecretBytes)
        .toString('utf8')
        .replace(/\r?\n$/, '')
      if (found !== '') current = found
      tell(found === '' ? 'it is empty' : '')
    } catch (error) {
      tell((error as Error).message)
    }
    return current
  }
}

const secretBytes = 32

/**
 * Returns a secret of this service: that of the setting, or one that is created at the first start and
 * stored in the folder, for this user only.
 *
 * @param set empty without the setting
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
