import { type FSWatcher, readdirSync, readFileSync, realpathSync, statSync, watch } from 'node:fs'
import { dirname, join } from 'node:path'
import type { Log } from '@tollway/chassis/log.ts'
import type { DomainConfig, Problem } from '../rules/config.ts'
import { parseYaml } from '../rules/parse-yaml.ts'
import type { Configuration } from './configuration.ts'
import type { Feed } from './feed.ts'

export interface FileFeedOptions {
  /** RUNTIME_ROOT with RUNTIME_SUBDIRECTORY. */
  readonly root: string
  /** RUNTIME_APPDIRECTORY: the folder of YAML files below the root. */
  readonly appDirectory: string
  readonly ignoreDotFiles: boolean
  /** Reload only when the root, a symbolic link, points elsewhere; otherwise at each change of a file. */
  readonly watchRoot: boolean
  readonly configuration: Configuration
  readonly log: Log
}

/** A change that no event told of is found after this time. */
const pollMs = 1000
/** Events come in bursts; what they tell of is looked at once, this long after the first. */
const settleMs = 20
const maxDepth = 16

/** A configuration file as it was found. */
interface Found {
  readonly path: string
  /** Below the watched folder, with dots for slashes: the name that its problems are told with. */
  readonly key: string
  /** Changes whenever the content may have. */
  readonly fingerprint: string
}

/**
 * Reads every YAML file below `root/appDirectory`, at the start and after each change. All of them, or none.
 */
export function createFileFeed(options: FileFeedOptions): Feed {
  const { log } = options
  const folder = join(options.root, options.appDirectory)
  const watched = options.watchRoot ? [dirname(options.root)] : [folder]
  const watchers: FSWatcher[] = []
  let poll: NodeJS.Timeout | undefined
  let settle: NodeJS.Timeout | undefined
  let loaded: string | undefined

  function look(): void {
    const found = findFiles(options, folder)
    const state = options.watchRoot ? realPath(options.root) : found.map(f => f.fingerprint).join('\n')
    if (state === loaded) return
    loaded = state
    load(options, found)
  }

  function soon(): void {
    settle ??= setTimeout(() => {
      settle = undefined
      look()
    }, settleMs)
  }

  return {
    start() {
      look()
      poll = setInterval(look, pollMs)
      for (const path of watched) {
        try {
          const watcher = watch(path, { recursive: !options.watchRoot }, soon)
          watcher.on('error', error => log.warn('watching failed', { path, reason: error.message }))
          watchers.push(watcher)
        } catch (error) {
          log.warn(`cannot watch, so changes are looked for every ${pollMs} ms`, {
            path,
            reason: (error as Error).message,
          })
        }
      }
    },
    async stop() {
      clearInterval(poll)
      clearTimeout(settle)
      for (const watcher of watchers) watcher.close()
    },
  }
}

function load(options: FileFeedOptions, files: readonly Found[]): void {
  const configs: DomainConfig[] = []
  const problems: Problem[] = []
  const warnings: Problem[] = []
  for (const { path, key } of files) {
    const parsed = parseFile(path, key)
    if ('problems' in parsed) problems.push(...parsed.problems)
    else {
      configs.push(parsed.value)
      warnings.push(...parsed.warnings)
    }
  }
  if (problems.length > 0) options.configuration.refuse(problems)
  else options.configuration.load(configs, warnings)
}

function parseFile(path: string, key: string): ReturnType<typeof parseYaml> {
  try {
    return parseYaml(key, readFileSync(path, 'utf8'))
  } catch (error) {
    return { problems: [{ source: key, path: '', message: (error as Error).message }] }
  }
}

function findFiles(options: FileFeedOptions, folder: string): Found[] {
  const prefix = options.watchRoot && options.appDirectory !== '' ? `${options.appDirectory}.` : ''
  const found: Found[] = []
  const visit = (path: string, keyPrefix: string, depth: number) => {
    for (const name of namesIn(path, options).sort()) {
      const child = join(path, name)
      const stat = statSync(child, { throwIfNoEntry: false, bigint: true })
      if (stat?.isDirectory() && depth < maxDepth) visit(child, `${keyPrefix}${name}.`, depth + 1)
      if (!stat?.isFile() || !/\.ya?ml$/.test(name)) continue
      const fingerprint = `${child} ${stat.ino} ${stat.size} ${stat.mtimeNs} ${stat.ctimeNs}`
      found.push({ path: child, key: keyPrefix + name, fingerprint })
    }
  }
  visit(folder, prefix, 0)
  return found
}

function namesIn(folder: string, options: FileFeedOptions): string[] {
  try {
    const names = readdirSync(folder)
    // A ConfigMap's mount keeps its files in `..data`, and shows them by links: they are read by those, and
    // once.
    return names.filter(name => !name.startsWith('..') && !(options.ignoreDotFiles && name.startsWith('.')))
  } catch (error) {
    options.log.warn('cannot read the configuration folder', { folder, reason: (error as Error).message })
    return []
  }
}

function realPath(path: string): string {
  try {
    return realpathSync(path)
  } catch {
    return ''
  }
}
