import { appendFileSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** The present file and the one before it together take twice this. */
export const maxLogFileBytes = 16 * 1024 * 1024

export interface LogFile {
  /**
   * Appends a line, which brings its line break along. Never throws: a full disk must not end what runs.
   */
  write(line: string): void
}

/**
 * Appends lines to a file. A full one is renamed to `<path>.1`, in the place of the one before. How many
 * lines could not be written, and why, is the next line that can be.
 */
export function openLogFile(path: string, maxBytes = maxLogFileBytes): LogFile {
  let bytes: number | undefined
  let lost = 0
  let why = ''

  function append(text: string): void {
    bytes ??= sizeOf(path)
    const length = Buffer.byteLength(text)
    if (bytes > 0 && bytes + length > maxBytes) {
      renameSync(path, `${path}.1`)
      bytes = 0
    }
    appendFileSync(path, text, { mode: 0o600 })
    bytes += length
  }

  return {
    write(line) {
      try {
        append(lost === 0 ? line : `${lost} lines could not be written: ${why}\n${line}`)
        lost = 0
      } catch (error) {
        lost += 1
        why = (error as Error).message
      }
    },
  }
}

/** Makes the folder when it is missing. */
function sizeOf(path: string): number {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}
