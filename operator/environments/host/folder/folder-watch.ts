import { type FSWatcher, watch } from 'node:fs'

/** Watchers of a changing set of directories; what they tell is only that something happened. */
export interface FolderWatch {
  /**
   * Watches the directory, unless it does so already. `identity` tells a directory from a later one of its
   * name.
   */
  see(directory: string, identity: string): void
  /** Ends the watchers of the directories that were not seen since the last call. */
  forgetUnseen(): void
  close(): void
}

/**
 * One watcher a directory: Node's own recursive watching on Linux follows no symbolic link to a directory
 * and, as it adds its watchers when an event tells of a subfolder, misses what was written into that before.
 */
export function watchFolders(onEvent: () => void, onWarn: (message: string) => void): FolderWatch {
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
    onWarn(`${directory} cannot be watched, so changes are noticed later: ${(error as Error).message}`)
  }

  return {
    see(directory, identity) {
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
    forgetUnseen() {
      for (const key of watchers.keys()) if (!seen.has(key)) drop(key)
      seen = new Set()
    },
    close() {
      for (const key of watchers.keys()) drop(key)
    },
  }
}
