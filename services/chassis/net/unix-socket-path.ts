import { accessSync, constants, lstatSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * The longest path of a unix socket. The system stores it with a final NUL in 108 bytes on Linux, and in 104
 * bytes elsewhere.
 */
export const maxSocketPathBytes = process.platform === 'linux' ? 107 : 103

/**
 * Returns in a few words why a server cannot listen on a unix socket with this path; undefined when it can.
 * An existing socket file is no problem here, since the server replaces it if no process listens on it.
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
