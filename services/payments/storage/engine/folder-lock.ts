import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { StorageError } from '../storage.ts'

/** Held by one process; the system releases it when the process ends, however it ends. */
export interface FolderLock {
  release(): void
}

/**
 * Makes the folder, for its owner only, and locks it. The lock is that of an SQLite file, which is a lock of
 * the system on all platforms: a file with a process id in it would outlive a kill, and its id may be
 * another's.
 *
 * @throws StorageError `unavailable` when another storage, of this process or another one, has the folder.
 */
export function lockFolder(folder: string): FolderLock {
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  chmodSync(folder, 0o700)
  const file = new DatabaseSync(join(folder, 'lock'), { timeout: 0 })
  try {
    file.exec('PRAGMA locking_mode = EXCLUSIVE; BEGIN EXCLUSIVE')
  } catch (cause) {
    file.close()
    throw new StorageError('unavailable', `the folder ${folder} is in use by another process`, { cause })
  }
  return { release: () => file.close() }
}
