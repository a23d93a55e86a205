import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const folders: string[] = []

/**
 * Creates an empty folder for this process, which is removed when the process ends. It is not removed with a
 * test: cleanup functions run in the order of their registration, so the folder would be removed before the
 * programs that still write into it, and the resulting error would prevent their end.
 *
 * @param name the beginning of its name
 */
export function temporaryFolder(name: string): string {
  if (folders.length === 0) process.once('exit', removeFolders)
  const folder = mkdtempSync(join(tmpdir(), `${name}-`))
  folders.push(folder)
  return folder
}

function removeFolders(): void {
  for (const folder of folders) rmSync(folder, { recursive: true, force: true, maxRetries: 5 })
}
