import { accessSync, constants, lstatSync } from 'node:fs'
import { dirname } from 'node:path'

/** The system stores the path and a NUL in 108 bytes on Linux, and in 104 bytes elsewhere. */
export const maxSocketPathBytes = process.platform === 'linux' ? 107 : 103

/**
 * Returns why a server cannot listen on this path; undefined if it can. An existing socket file is no
 * problem: the server replaces it if no process listens on it.
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
