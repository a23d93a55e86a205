import type { Log } from '@tollway/chassis/log/log.ts'
import { type Domain, openDomain, type RuleSet } from '../rules/compile.ts'
import { compileDomain } from '../rules/compile-domain.ts'
import type { DomainTable } from '../rules/domain-table.ts'
import type { Feature } from '../rules/fields.ts'
import type { ConfigProblem, FieldSpelling } from '../rules/model.ts'
import { formatProblem } from '../rules/problems.ts'
import type { LimitStats, LimitStatsTable } from '../stats/limit-stats.ts'
import type { Stats } from '../stats/stats.ts'
import { type CompiledChanges, readInThread } from './read-in-thread.ts'
import { type KnownPart, type Reading, readChanges } from './reading.ts'

/** The active configuration. Feeds load it, the limiter reads it; each call uses one as a whole. */
export interface Configuration {
  /** Returns the active rules; undefined until the first load that succeeded. */
  rules(): RuleSet<LimitStats> | undefined
  /**
   * Loads a whole configuration. Resolves with all problems; if there is one, the active configuration stays.
   * An empty configuration is valid and means no limits. Decisions continue with the active configuration
   * during a load. Loads must not overlap: start the next one when the promise has resolved.
   */
  load(reading: Reading): Promise<readonly ConfigProblem[]>
  /** Adds a listener that is called after each load that succeeded. */
  onLoad(listener: () => void): void
}

/** A source of configurations. It loads what it receives into the configuration until it is stopped. */
export interface ConfigFeed {
  start(): void
  stop(): Promise<void>
}

export interface ConfigurationOptions {
  readonly stats: Stats
  readonly limitStats: LimitStatsTable
  readonly log: Log
  readonly mergeDomainConfigs: boolean
  readonly spelling: FieldSpelling
  /**
   * Resolves with the reason why this process cannot enforce the features, or the empty string. Called once
   * for each set of features in a load; without this function, features are not checked.
   */
  readonly findObstacle?: (features: readonly Feature[]) => Promise<string>
  /** Changes of more bytes than this are read in a thread. Defaults to `maxInlineBytes`. */
  readonly inlineBytes?: number
}

/**
 * Changes of at most this many bytes are read on the main thread, because a thread takes tens of milliseconds
 * to start. Reading YAML takes ten times as long as reading a message of the same size.
 */
const maxInlineBytes = { files: 16 * 1024, response: 64 * 1024 } as const

/** At most this many problems and this many warnings of one load are logged. */
const maxLoggedProblems = 20

export function createConfiguration(options: ConfigurationOptions): Configuration {
  const { log } = options
  const successes = options.stats.counter('ratelimit.service.config_load_success')
  const failures = options.stats.counter('ratelimit.service.config_load_error')
  const listeners: (() => void)[] = []
  let rules: RuleSet<LimitStats> | undefined
  let inForce: readonly KnownPart[] = []
  /** The content hashes of the active files, by fingerprint. */
  let fingerprints: ReadonlyMap<string, string> = new Map()

  /** Logs the texts of envoyproxy/ratelimit, because operators search their logs for them. */
  function reject(problems: readonly ConfigProblem[]): void {
    failures.value += 1
    for (const problem of problems.slice(0, maxLoggedProblems)) {
      log.error(`Error loading new configuration: ${formatProblem(problem)}`)
    }
    const more = problems.length - maxLoggedProblems
    if (more > 0) log.error(`Error loading new configuration: ${more} more problems`)
  }

  function enforce(reading: Reading, changes: CompiledChanges): void {
    const domains = openDomains(changes, rules?.domains, options.limitStats)
    rules = { domains }
    inForce = changes.parts
    fingerprints = new Map(listFingerprints(reading, changes.parts))
    successes.value += 1
    for (const warning of changes.warnings.slice(0, maxLoggedProblems))
      log.warn('report configuration warning', { reason: formatProblem(warning) })
    log.info('load configuration', { domains: domains.size, changed: changes.tables.length })
    for (const listener of listeners) listener()
  }

  return {
    rules: () => rules,
    async load(reading) {
      let problems: readonly ConfigProblem[]
      try {
        const fileHashes =
          reading.from === 'files' ? reading.files.map(file => fingerprints.get(file.fingerprint)) : []
        const changes = await readAndCompile(reading, fileHashes, inForce, options)
        const invalid = changes.problems.length > 0
        problems = invalid ? changes.problems : await findObstacles(changes.tables, options.findObstacle)
        if (problems.length === 0) enforce(reading, changes)
      } catch (error) {
        // An error, such as a thread that runs out of memory, rejects this load only.
        problems = [{ source: 'configuration', path: '', message: (error as Error).message }]
      }
      if (problems.length > 0) reject(problems)
      return problems
    },
    onLoad: listener => void listeners.push(listener),
  }
}

/** Reads and compiles small changes at once, and all others in a thread. */
async function readAndCompile(
  reading: Reading,
  fileHashes: readonly (string | undefined)[],
  inForce: readonly KnownPart[],
  {
    mergeDomainConfigs,
    spelling,
    inlineBytes: maxBytes = maxInlineBytes[reading.from],
  }: ConfigurationOptions,
): Promise<CompiledChanges> {
  const options = { mergeDomainConfigs, spelling, inForce, fileHashes }
  const changes = await readChanges(reading, { ...options, maxBytes })
  if (changes === undefined) return await readInThread({ reading, options })
  if (changes.problems.length > 0) return { ...changes, tables: [] }
  const tables = [...changes.changed].map(([domain, configs]) => compileDomain(domain, configs))
  return { ...changes, tables }
}

/** Returns a problem for each configuration with features that this process cannot enforce. */
async function findObstacles(
  tables: readonly DomainTable[],
  findObstacle: ConfigurationOptions['findObstacle'],
): Promise<readonly ConfigProblem[]> {
  const obstacles = new Map<string, string>()
  const problems: ConfigProblem[] = []
  for (const { source, features } of tables.flatMap(({ extensions }) => extensions)) {
    const name = features.join()
    const message = obstacles.get(name) ?? (await findObstacle?.(features)) ?? ''
    obstacles.set(name, message)
    if (message !== '') problems.push({ source, path: '', message })
  }
  return problems
}

function openDomains(
  { parts, tables }: CompiledChanges,
  before: RuleSet<LimitStats>['domains'] | undefined,
  limitStats: LimitStatsTable,
): ReadonlyMap<string, Domain<LimitStats>> {
  const changed = new Map(tables.map(table => [table.domain, table]))
  const domains = new Map<string, Domain<LimitStats>>()
  for (const { domain } of parts) {
    const table = changed.get(domain)
    const opened = domains.get(domain) ?? (table ? openDomain(table, limitStats) : before?.get(domain))
    if (opened === undefined) throw new Error(`the domain '${domain}' was not compiled`)
    domains.set(domain, opened)
  }
  return domains
}

function* listFingerprints(
  reading: Reading,
  parts: readonly KnownPart[],
): Generator<[string, string], undefined> {
  if (reading.from === 'files') {
    for (const [index, { fingerprint }] of reading.files.entries())
      yield [fingerprint, parts[index]?.hash ?? '']
  }
  return undefined
}
