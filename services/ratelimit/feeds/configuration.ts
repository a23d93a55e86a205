import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log.ts'
import { createCompiler, type RuleSet } from '../rules/compile.ts'
import type { FieldSpelling, Problem } from '../rules/config.ts'
import { flatten } from '../rules/flatten.ts'
import { formatProblem } from '../rules/format-problem.ts'
import type { LimitStats, LimitStatsTable } from '../stats/limit-stats.ts'
import type { Stats } from '../stats/stats.ts'
import { addInSlices } from './add-in-slices.ts'
import { readInThread } from './read-in-thread.ts'
import { bytesOf, type Reading, readAndJudge } from './reading.ts'

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
  readonly clock: Clock
  readonly mergeDomainConfigs: boolean
  readonly spelling: FieldSpelling
  /** What is larger is read in a thread of its own; `maxInlineBytes` when left out. */
  readonly inlineBytes?: number
}

/**
 * What is at most so large is read within a few turns of the event loop, without the tens of milliseconds that
 * a thread takes to start: files of a thousand descriptors.
 */
export const maxInlineBytes = 128 * 1024

/** More problems of one load than this are counted, not logged one by one. */
const maxLoggedProblems = 20

export function createConfiguration(options: ConfigurationOptions): Configuration {
  const { log, clock, mergeDomainConfigs, spelling, inlineBytes = maxInlineBytes } = options
  const successes = options.stats.counter('ratelimit.service.config_load_success')
  const failures = options.stats.counter('ratelimit.service.config_load_error')
  const listeners: (() => void)[] = []
  let rules: RuleSet<LimitStats> | undefined

  async function read(reading: Reading) {
    const judging = { mergeDomainConfigs, spelling }
    if (bytesOf(reading) > inlineBytes) return await readInThread(reading, judging)
    const { configs, ...verdict } = await readAndJudge(reading, judging)
    return { ...verdict, parts: [flatten(configs)] }
  }

  function refuse(problems: readonly Problem[]): void {
    failures.value += 1
    for (const problem of problems.slice(0, maxLoggedProblems)) {
      log.error(`Error loading new configuration: ${formatProblem(problem)}`)
    }
    const more = problems.length - maxLoggedProblems
    if (more > 0) log.error(`Error loading new configuration: ${more} problems more`)
  }

  function enforce(next: RuleSet<LimitStats>, warnings: readonly Problem[]): void {
    rules = next
    successes.value += 1
    for (const warning of warnings.slice(0, maxLoggedProblems)) log.warn(formatProblem(warning))
    log.info('configuration loaded', { domains: rules.domains.size })
    for (const listener of listeners) listener()
  }

  /** What fails here fails for what is loaded: its thread may want more memory than there is. */
  async function make(reading: Reading): Promise<Made> {
    try {
      const { problems, warnings, parts } = await read(reading)
      if (problems.length > 0) return { problems }
      const compiler = createCompiler({ mergeDomainConfigs, attach: options.limitStats.attach })
      await addInSlices(compiler, parts, clock)
      return { rules: compiler.finish(), warnings }
    } catch (error) {
      return { problems: [{ source: 'configuration', path: '', message: (error as Error).message }] }
    }
  }

  return {
    rules: () => rules,
    async load(reading) {
      const made = await make(reading)
      if ('problems' in made) {
        refuse(made.problems)
        return made.problems
      }
      enforce(made.rules, made.warnings)
      return []
    },
    onLoad: listener => void listeners.push(listener),
  }
}

type Made =
  | { readonly rules: RuleSet<LimitStats>; readonly warnings: readonly Problem[] }
  | { readonly problems: readonly Problem[] }
