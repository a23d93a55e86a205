import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

const folders: string[] = []

/**
 * An empty folder of this process's own, removed when the process ends. It is not removed with a test: what a test
 * leaves to be done after it is done in the order in which it was left, so that the folder would go before the
 * programs that still write into it, and the error of that would keep them from being ended.
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
