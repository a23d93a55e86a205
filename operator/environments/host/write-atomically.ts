import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * Replaces the content of a file. A reader sees the old or the new content, even if this process is killed or
 * the power fails. Only the owner can read the file.
 *
 * @param keepAs the path to which the old file is moved; for a moment only this file exists
 */
export function writeAtomically(path: string, text: string, keepAs?: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(`${path}.new`, text, { mode: 0o600, flush: true })
  if (keepAs !== undefined && existsSync(path)) renameSync(path, keepAs)
  renameSync(`${path}.new`, path)
}
