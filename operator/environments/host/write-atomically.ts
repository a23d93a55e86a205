import { existsSync, mkdirSync, renameSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'

/**
 * A reader sees the old content or the new one, also when this process is killed at any moment, or the
 * power goes. For its owner's eyes only.
 *
 * @param keepAs where the old content is kept, when it shall be; between two steps only that is there.
 */
export function writeAtomically(path: string, text: string, keepAs?: string): void {
  mkdirSync(dirname(path), { recursive: true, mode: 0o700 })
  writeFileSync(`${path}.new`, text, { mode: 0o600, flush: true })
  if (keepAs !== undefined && existsSync(path)) renameSync(path, keepAs)
  renameSync(`${path}.new`, path)
}
