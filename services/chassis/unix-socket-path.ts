import { accessSync, constants, lstatSync } from 'node:fs'
import { dirname } from 'node:path'

/** The system keeps the path of a unix socket in 108 bytes on Linux, in 104 elsewhere, its end included. */
export const maxSocketPathBytes = process.platform === 'linux' ? 107 : 103

/**
 * Why a server cannot listen on a unix socket of this path, in a few words; undefined when it can. A socket that is
 * there may be a dead one, which the server replaces.
 */
export function findSocketPathProblem(path: string): string | undefined {
  const bytes = Buffer.byteLength(path)
  if (bytes > maxSocketPathBytes) return `has ${bytes} bytes, and at most ${maxSocketPathBytes} are allowed`
  try {
    accessSync(dirname(path), constants.W_OK | constants.X_OK)
    const isOther = lstatSync(path, { throwIfNoEntry: false })?.isSocket() === false
    return isOther ? 'there is something that is no socket' : undefined
  } catch (error) {
    return `its folder cannot be written to: ${(error as NodeJS.ErrnoException).code}`
  }
}
