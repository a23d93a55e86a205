import { readBoundedFile } from '@tollway/chassis/read-bounded-file.ts'

/**
 * Reads the file that an option names.
 *
 * @throws Error with the option, the path and the cause, and never with the content
 */
export function readInput(option: string, path: string, maxBytes: number): string {
  try {
    return readBoundedFile(path, maxBytes).toString('utf8')
  } catch (error) {
    throw new Error(`${option} ${path}: ${describeFileError(error)}`)
  }
}

/** `no such file`, or the reason why a file cannot be read. */
export function describeFileError(error: unknown): string {
  const { code, message, cause } = error as NodeJS.ErrnoException
  const isMissing = code === 'ENOENT' || (cause as NodeJS.ErrnoException | undefined)?.code === 'ENOENT'
  return isMissing ? 'no such file' : message
}
