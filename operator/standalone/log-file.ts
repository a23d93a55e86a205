import { appendFileSync, mkdirSync, renameSync, statSync } from 'node:fs'
import { dirname } from 'node:path'

/** The present file and the one before it together take twice this. */
export const maxLogFileBytes = 16 * 1024 * 1024

/** Appends lines to a file. A full one is renamed to `<path>.1`, in the place of the one before. */
export function openLogFile(path: string, maxBytes = maxLogFileBytes): { write(line: string): void } {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  let bytes = statSync(path, { throwIfNoEntry: false })?.size ?? 0
  return {
    write(line) {
      const length = Buffer.byteLength(line)
      if (bytes > 0 && bytes + length > maxBytes) {
        renameSync(path, `${path}.1`)
        bytes = 0
      }
      appendFileSync(path, line, { mode: 0o600 })
      bytes += length
    },
  }
}
