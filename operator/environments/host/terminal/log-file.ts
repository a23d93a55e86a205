import { appendFileSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** The maximum size of a file. The present and the previous file together have up to twice this size. */
export const maxLogFileBytes = 16 * 1024 * 1024

export interface LogFile {
  /** Appends a line with its line break. Never throws, because a full disk must not end the processes. */
  write(line: string): void
}

/**
 * Appends lines to a file. A full file is renamed to `<path>.1` and replaces the previous one. After failed
 * writes, the next written line has their number and the cause.
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

/** Returns the size of the file. Creates its folder if it does not exist. */
function sizeOf(path: string): number {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  return statSync(path, { throwIfNoEntry: false })?.size ?? 0
}
