import type { Log } from '@tollway/chassis/log.ts'
import { compile, type RuleSet } from '../rules/compile.ts'
import type { DomainConfig, FieldSpelling, Problem } from '../rules/config.ts'
import { formatProblem } from '../rules/format-problem.ts'
import { validate } from '../rules/validate.ts'
import type { LimitStats, LimitStatsTable } from '../stats/limit-stats.ts'
import type { Stats } from '../stats/stats.ts'

/**
 * The configuration in force. Feeds load it, the limiter reads it; a call is decided by one of them as a
 * whole.
 */
export interface Configuration {
  /** undefined until the first load that succeeded. */
  rules(): RuleSet<LimitStats> | undefined
  /**
   * Puts the whole in force, or, when anything in it is wrong, nothing: then what was in force stays, and
   * every problem is answered. An empty list is right, and means no limit at all.
   */
  load(configs: readonly DomainConfig[], warnings: readonly Problem[]): readonly Problem[]
  /** Counts and logs a configuration that could not even be read. */
  refuse(problems: readonly Problem[]): void
  /** Called after each load that succeeded. */
  onLoad(listener: () => void): void
}

export interface ConfigurationOptions {
  readonly stats: Stats
  readonly limitStats: LimitStatsTable
  readonly log: Log
  readonly mergeDomainConfigs: boolean
  readonly spelling: FieldSpelling
}

/** More problems of one load than this are counted, not logged one by one. */
const maxLoggedProblems = 20

export function createConfiguration(options: ConfigurationOptions): Configuration {
  const { log, mergeDomainConfigs, spelling } = options
  const successes = options.stats.counter('ratelimit.service.config_load_success')
  const failures = options.stats.counter('ratelimit.service.config_load_error')
  const listeners: (() => void)[] = []
  let rules: RuleSet<LimitStats> | undefined

  function refuse(problems: readonly Problem[]): void {
    failures.value += 1
    for (const problem of problems.slice(0, maxLoggedProblems)) {
      log.error(`Error loading new configuration: ${formatProblem(problem)}`)
    }
    const more = problems.length - maxLoggedProblems
    if (more > 0) log.error(`Error loading new configuration: ${more} problems more`)
  }

  return {
    rules: () => rules,
    refuse,
    load(configs, readWarnings) {
      const { problems, warnings } = validate(configs, { mergeDomainConfigs, spelling })
      if (problems.length > 0) {
        refuse(problems)
        return problems
      }
      rules = compile(configs, { mergeDomainConfigs, attach: options.limitStats.attach })
      successes.value += 1
      for (const warning of [...readWarnings, ...warnings].slice(0, maxLoggedProblems)) {
        log.warn(formatProblem(warning))
      }
      log.info('configuration loaded', { domains: rules.domains.size })
      for (const listener of listeners) listener()
      return []
    },
    onLoad: listener => void listeners.push(listener),
  }
}
