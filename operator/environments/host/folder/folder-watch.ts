import { type FSWatcher, watch } from 'node:fs'
import type { Log } from '@tollway/chassis/log/log.ts'

/**
 * Watches directories, each with its own watcher. Node's recursive watching on Linux follows no symbolic link
 * to a directory, and misses files that are written into a new subfolder before its watcher exists.
 */
export function watchFolders(onEvent: () => void, onWarn: Log['warn']) {
  const watchers = new Map<string, FSWatcher>()
  let seen = new Set<string>()
  let warned = false

  const drop = (key: string) => {
    watchers.get(key)?.close()
    watchers.delete(key)
  }

  const failed = (directory: string, error: unknown) => {
    if (warned) return
    warned = true
    // Changes are then found by the periodic scans, which is later.
    onWarn('watch folder failed', { folder: directory, error: (error as Error).message })
  }

  return {
    /**
     * Watches the directory if it is not watched yet. `identity` distinguishes it from an earlier directory
     * of the same path.
     */
    see(directory: string, identity: string): void {
      const key = `${identity} ${directory}`
      seen.add(key)
      if (watchers.has(key)) return
      try {
        const watcher = watch(directory, onEvent)
        watcher.on('error', error => {
          failed(directory, error)
          drop(key)
        })
        watchers.set(key, watcher)
      } catch (error) {
        failed(directory, error)
      }
    },
    /** Closes the watchers of directories that were not passed to `see` since the last call. */
    forgetUnseen(): void {
      for (const key of watchers.keys()) if (!seen.has(key)) drop(key)
      seen = new Set()
    },
    close(): void {
      for (const key of watchers.keys()) drop(key)
    },
  }
}
