import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'

/**
 * Reads the file that an option names.
 *
 * @throws Error with the option, the path and the cause, without the content
 */
export function readInput(option: string, path: string, maxBytes: number): string {
  try {
    return readBoundedFile(path, maxBytes).toString('utf8')
  } catch (error) {
    throw new Error(`${option} ${path}: ${describeFileError(error)}`)
  }
}

/** Returns the reason why a file cannot be read: `no such file`, or the message of the error. */
export function describeFileError(error: unknown): string {
  const { code, message, cause } = error as NodeJS.ErrnoException
  const isMissing = code === 'ENOENT' || (cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT'
  return isMissing ? 'no such file' : message
}
