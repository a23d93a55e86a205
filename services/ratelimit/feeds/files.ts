import { type FSWatcher, lstatSync, realpathSync, watch } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Log } from '@tollway/chassis/log.ts'
import type { Stats } from '../stats/stats.ts'
import type { Configuration } from './configuration.ts'
import type { Feed } from './feed.ts'
import { type FoundFiles, findFiles, identityOf } from './find-files.ts'

export interface FileFeedOptions {
  /** RUNTIME_ROOT. */
  readonly root: string
  /** RUNTIME_SUBDIRECTORY below the root; empty for none. */
  readonly subdirectory: string
  /** RUNTIME_APPDIRECTORY below that: the folder of YAML files. */
  readonly appDirectory: string
  readonly ignoreDotFiles: boolean
  /**
   * Reload only when links are swapped: the root itself, or those by which a ConfigMap's mount shows its
   * files; otherwise at each change of a file.
   */
  readonly watchRoot: boolean
  /** A change that no event told of is found after this time: one in a subfolder, or behind a link. */
  readonly pollMs?: number
  readonly configuration: Configuration
  /** Loads are counted under the reference's names, `runtime.load_attempts` and so on. */
  readonly stats: Pick<Stats, 'counter' | 'gauge'>
  readonly log: Log
}

const defaultPollMs = 1000
/** Events come in bursts; what they tell of is looked at once, this long after the first. */
const settleMs = 20

/**
 * Reads every YAML file below the configuration folder, at the start and after each change. All of them, or
 * none: a folder that is not there is no empty configuration but a wrong one, and what was in force stays.
 */
export function createFileFeed(options: FileFeedOptions): Feed {
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

  /** What changes while this looks is newer than the state that is remembered, so the next look finds it. */
  function look(): void {
    const state = watchRoot ? stateOfLinks(root, folder) : stateOfFiles(find())
    if (loading || state === loaded) return
    loaded = state
    loading = true
    const found = find()
    loads.count(found)
    void configuration.load({ from: 'files', ...found }).then(() => {
      loading = false
      // What changed meanwhile was not looked at.
      if (poll !== undefined) look()
    })
  }

  function soon(): void {
    settle ??= setTimeout(() => {
      settle = undefined
      look()
    }, settleMs)
  }

  function watchFolder(path: string): void {
    const failed = (error: unknown) => {
      const reason = (error as Error).message
      log.warn(`cannot watch, so changes are looked for every ${pollMs} ms`, { path, reason })
    }
    try {
      watcher = watch(path, soon).on('error', failed)
    } catch (error) {
      failed(error)
    }
  }

  return {
    start() {
      look()
      watchFolder(watchRoot ? dirname(root) : folder)
      poll = setInterval(look, pollMs)
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

/**
 * Changes when the root is linked anew, even to the same folder, and when a link below it leads elsewhere.
 */
function stateOfLinks(root: string, folder: string): string {
  const looks = [
    () => linkIdentity(root),
    () => realpathSync(folder),
    () => realpathSync(join(folder, '..data')),
  ]
  return looks.map(orNothing).join('\n')
}

function linkIdentity(path: string): string {
  const stat = lstatSync(path, { bigint: true })
  return stat.isSymbolicLink() ? identityOf(stat) : `${stat.dev} ${stat.ino}`
}

function orNothing(look: () => string): string {
  try {
    return look()
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
    /** A failure is what cannot be looked at, as in the reference; what is wrong in a file is not. */
    count(found: FoundFiles): void {
      attempts.value += 1
      if (found.problems.length > 0) failures.value += 1
      else files = found.files.length
    },
  }
}
