import { type FSWatcher, lstatSync, realpathSync, watch } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { Stats } from '../stats/stats.ts'
import type { ConfigFeed, Configuration } from './configuration.ts'
import { type FoundFiles, findFiles, fingerprint } from './find-files.ts'

interface FileFeedOptions {
  /** The setting RUNTIME_ROOT: a folder, or a link to one. */
  readonly root: string
  /** The setting RUNTIME_SUBDIRECTORY: a folder below the root; empty for none. */
  readonly subdirectory: string
  /** The setting RUNTIME_APPDIRECTORY: the folder of YAML files below the subdirectory. */
  readonly appDirectory: string
  readonly ignoreDotFiles: boolean
  /**
   * Whether to reload only when a link is swapped: the root itself, or a link by which the mount of a
   * ConfigMap publishes its files. If false, each change of a file causes a reload.
   */
  readonly watchRoot: boolean
  /** Polling finds changes that cause no event, such as one in a subfolder or behind a link. */
  readonly pollMs?: number
  readonly configuration: Configuration
  /** Loads are counted under the names of envoyproxy/ratelimit, `runtime.load_attempts` and so on. */
  readonly stats: Pick<Stats, 'counter' | 'gauge'>
  readonly log: Log
}

const defaultPollMs = 1000
/** Events come in bursts; the folder is checked once, this long after the first event. */
const settleMs = 20

/**
 * Reads every YAML file below the configuration folder, at the start and after each change. A load is all or
 * nothing: a missing folder is not an empty configuration but an error, and the active configuration stays.
 */
export function createFileFeed(options: FileFeedOptions): ConfigFeed {
  const { root, subdirectory, appDirectory, ignoreDotFiles, watchRoot, configuration, log } = options
  const { pollMs = defaultPollMs } = options
  const folder = join(root, subdirectory, appDirectory)
  const prefix = watchRoot && appDirectory !== '' ? `${appDirectory.replaceAll('/', '.')}.` : ''
  let watcher: FSWatcher | undefined
  let poll: NodeJS.Timeout | undefined
  let settle: NodeJS.Timeout | undefined
  let loaded: string | undefined
  let loading = false
  const loads = createLoadStats(options.stats)

  const find = () => findFiles(folder, { keyPrefix: prefix, ignoreDotFiles })

  /**
   * Starts a load, unless one runs, if the files have changed since the last load (with `watchRoot`: the
   * links).
   */
  function check(): void {
    const state = watchRoot ? stateOfLinks(root, folder) : stateOfFiles(find())
    if (loading || state === loaded) return
    loaded = state
    loading = true
    const found = find()
    loads.count(found)
    void configuration.load({ from: 'files', ...found }).then(() => {
      loading = false
      // Checks for changes during the load, unless the feed was stopped.
      if (poll !== undefined) check()
    })
  }

  function checkSoon(): void {
    settle ??= setTimeout(() => {
      check()
    }, settleMs)
  }

  function watchFolder(path: string): void {
    const failed = (error: unknown) => {
      const reason = (error as Error).message
      log.warn('watch folder failed', { path, reason, pollMs })
    }
    try {
      watcher = watch(path, checkSoon).on('error', failed)
    } catch (error) {
      failed(error)
    }
  }

  return {
    start() {
      check()
      watchFolder(watchRoot ? dirname(root) : folder)
      poll = setInterval(check, pollMs)
    },
    async stop() {
      clearInterval(poll)
      poll = undefined
      clearTimeout(settle)
      watcher?.close()
    },
  }
}

function stateOfFiles({ files, problems }: FoundFiles): string {
  return [...files.map(file => file.fingerprint), ...problems.map(({ source }) => source)].join('\n')
}

/** Returns a text that changes when the root, or a link below it, is linked anew, even to the same folder. */
function stateOfLinks(root: string, folder: string): string {
  const parts = [
    () => linkIdentity(root),
    () => realpathSync(folder),
    () => realpathSync(join(folder, '..data')),
  ]
  return parts.map(orEmpty).join('\n')
}

function linkIdentity(path: string): string {
  const stat = lstatSync(path, { bigint: true })
  return stat.isSymbolicLink() ? fingerprint(stat) : `${stat.dev} ${stat.ino}`
}

function orEmpty(read: () => string): string {
  try {
    return read()
  } catch {
    return ''
  }
}

function createLoadStats(stats: Pick<Stats, 'counter' | 'gauge'>) {
  const attempts = stats.counter('runtime.load_attempts')
  const failures = stats.counter('runtime.load_failures')
  let files = 0
  stats.gauge('runtime.num_values', () => files)
  return {
    /**
     * Counts a load. As in envoyproxy/ratelimit, an unreadable file or folder fails it, but an invalid file
     * does not.
     */
    count(found: FoundFiles): void {
      attempts.value += 1
      if (found.problems.length > 0) failures.value += 1
      else files = found.files.length
    },
  }
}
