import { type FSWatcher, lstatSync, realpathSync, watch } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Log } from '@tollway/chassis/log.ts'
import type { Configuration } from './configuration.ts'
import type { Feed } from './feed.ts'
import { type FoundFiles, findFiles, identityOf } from './find-files.ts'
import { readFiles } from './read-files.ts'

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

  const find = () => findFiles(folder, { keyPrefix: prefix, ignoreDotFiles })

  /** What changes while this looks is newer than the state that is remembered, so the next look finds it. */
  function look(): void {
    const state = watchRoot ? stateOfLinks(root, folder) : stateOfFiles(find())
    if (state === loaded) return
    loaded = state
    load(configuration, find())
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

function load(configuration: Configuration, found: FoundFiles): void {
  const { configs, problems, warnings } = readFiles(found)
  if (problems.length > 0) configuration.refuse(problems)
  else configuration.load(configs, warnings)
}
