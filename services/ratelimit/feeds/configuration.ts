import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Log } from '@tollway/chassis/log.ts'
import { type Domain, openDomain, type RuleSet } from '../rules/compile.ts'
import { compileDomain } from '../rules/compile-domain.ts'
import type { FieldSpelling, Problem } from '../rules/config.ts'
import { formatProblem } from '../rules/format-problem.ts'
import type { LimitStats, LimitStatsTable } from '../stats/limit-stats.ts'
import type { Stats } from '../stats/stats.ts'
import { type KnownPart, readChanges } from './read-changes.ts'
import { type CompiledChanges, readInThread } from './read-in-thread.ts'
import { hashOf, openReading, type Reading } from './reading.ts'

/**
 * The configuration in force. Feeds load it, the limiter reads it; a call is decided by one of them as a
 * whole.
 */
export interface Configuration {
  /** undefined until the first load that succeeded. */
  rules(): RuleSet<LimitStats> | undefined
  /**
   * Reads the whole and puts it in force, or, when anything in it is wrong, nothing: then what was in force
   * stays, and every problem is answered. An empty list is right, and means no limit at all. Decisions go on
   * meanwhile, by what was in force. The next one is to be loaded when this has resolved.
   */
  load(reading: Reading): Promise<readonly Problem[]>
  /** Called after each load that succeeded. */
  onLoad(listener: () => void): void
}

export interface ConfigurationOptions {
  readonly stats: Stats
  readonly limitStats: LimitStatsTable
  readonly log: Log
  readonly mergeDomainConfigs: boolean
  readonly spelling: FieldSpelling
  /** More is read in a thread of its own; `maxInlineBytes` when left out. */
  readonly inlineBytes?: number
}

/**
 * So many bytes of changed content are read within a turn of the event loop, without the tens of milliseconds that a
 * thread takes to start. YAML takes ten times as long as a message.
 */
export const maxInlineBytes = { files: 16 * 1024, response: 64 * 1024 } as const

/** Of resources, so much is hashed in one turn of the event loop. It takes about a millisecond. */
const hashedBytesPerTurn = 1024 * 1024

/** More problems of one load than this are counted, not logged one by one. */
const maxLoggedProblems = 20

export function createConfiguration(options: ConfigurationOptions): Configuration {
  const { log, mergeDomainConfigs, spelling } = options
  const { attach } = options.limitStats
  const successes = options.stats.counter('ratelimit.service.config_load_success')
  const failures = options.stats.counter('ratelimit.service.config_load_error')
  const listeners: (() => void)[] = []
  let rules: RuleSet<LimitStats> | undefined
  /** The parts in force. */
  let inForce: readonly KnownPart[] = []
  /** Of files in force, the hash of the content by the fingerprint. */
  let fingerprints: ReadonlyMap<string, string> = new Map()

  async function hashesOf(reading: Reading): Promise<readonly (string | undefined)[]> {
    if (reading.from === 'files') return reading.files.map(file => fingerprints.get(file.fingerprint))
    const hashes: string[] = []
    let left = hashedBytesPerTurn
    for (const { value } of reading.resources) {
      if (left < 0) await nextTurn()
      if (left < 0) left = hashedBytesPerTurn
      hashes.push(hashOf(value))
      left -= value.length
    }
    return hashes
  }

  /** Small changes are read here, all others in a thread. */
  async function read(reading: Reading): Promise<CompiledChanges> {
    const hashes = await hashesOf(reading)
    const judging = { mergeDomainConfigs, spelling, inForce }
    const { inlineBytes: maxBytes = maxInlineBytes[reading.from] } = options
    const changes = readChanges(await openReading(reading, hashes), { ...judging, maxBytes })
    if (changes === undefined) return await readInThread({ reading, hashes, options: judging })
    if (changes.problems.length > 0) return { ...changes, tables: [] }
    return {
      ...changes,
      tables: [...changes.changed].map(([domain, configs]) => compileDomain(domain, configs)),
    }
  }

  function refuse(problems: readonly Problem[]): void {
    failures.value += 1
    for (const problem of problems.slice(0, maxLoggedProblems)) {
      log.error(`Error loading new configuration: ${formatProblem(problem)}`)
    }
    const more = problems.length - maxLoggedProblems
    if (more > 0) log.error(`Error loading new configuration: ${more} problems more`)
  }

  function enforce(reading: Reading, { parts, tables, warnings }: CompiledChanges): void {
    const before = rules?.domains
    const changed = new Map(tables.map(table => [table.domain, table]))
    const domains = new Map<string, Domain<LimitStats>>()
    for (const { domain } of parts) {
      const table = changed.get(domain)
      const opened = domains.get(domain) ?? (table ? openDomain(table, attach) : before?.get(domain))
      if (opened === undefined) throw new Error(`the domain '${domain}' was not compiled`)
      domains.set(domain, opened)
    }
    rules = { domains }
    inForce = parts
    fingerprints = new Map(fingerprintsOf(reading, parts))
    successes.value += 1
    for (const warning of warnings.slice(0, maxLoggedProblems)) log.warn(formatProblem(warning))
    log.info('configuration loaded', { domains: domains.size, changed: changed.size })
    for (const listener of listeners) listener()
  }

  return {
    rules: () => rules,
    async load(reading) {
      try {
        const changes = await read(reading)
        if (changes.problems.length === 0) enforce(reading, changes)
        else refuse(changes.problems)
        return changes.problems
      } catch (error) {
        // An error rejects this load only, as when its thread runs out of memory.
        const problems = [{ source: 'configuration', path: '', message: (error as Error).message }]
        refuse(problems)
        return problems
      }
    },
    onLoad: listener => void listeners.push(listener),
  }
}

function* fingerprintsOf(
  reading: Reading,
  parts: readonly KnownPart[],
): Generator<[string, string], undefined> {
  if (reading.from === 'files') {
    for (const [index, { fingerprint }] of reading.files.entries())
      yield [fingerprint, parts[index]?.hash ?? '']
  }
  return undefined
}
