import { accessSync, constants, lstatSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * The system stores the path of a unix socket in 108 bytes on Linux, in 104 elsewhere, including the final
 * NUL.
 */
export const maxSocketPathBytes = process.platform === 'linux' ? 107 : 103

/**
 * Returns the reason, in a few words, why a server cannot listen on a unix socket with this path; undefined
 * when it can. An existing socket may be a stale one, which the server replaces.
 */
export function findSocketPathProblem(path: string): string | undefined {
  const bytes = Buffer.byteLength(path)
  if (bytes > maxSocketPathBytes) return `has ${bytes} bytes, and at most ${maxSocketPathBytes} are allowed`
  try {
    accessSync(dirname(path), constants.W_OK | constants.X_OK)
    const isOther = lstatSync(path, { throwIfNoEntry: false })?.isSocket() === false
    return isOther ? 'the file is not a socket' : undefined
  } catch (error) {
    return `its folder cannot be written to: ${(error as NodeJS.ErrnoException).code}`
  }
}
