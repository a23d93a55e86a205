import { type Log, silentLog } from '@tollway/chassis/log.ts'
import { createLimitStats } from '../stats/limit-stats.ts'
import { createStats } from '../stats/stats.ts'
import { createConfiguration } from './configuration.ts'

/** A configuration for tests of feeds, and what they ask about it. */
export function openConfiguration(spelling: 'snake' | 'camel', mergeDomainConfigs = false) {
  const errors: string[] = []
  const warnings: string[] = []
  const log: Log = {
    ...silentLog,
    error: message => void errors.push(message),
    warn: (message, fields) => void warnings.push([message, ...Object.values(fields ?? {})].join(' ')),
  }
  const stats = createStats()
  const configuration = createConfiguration({
    stats,
    limitStats: createLimitStats(stats, () => {}),
    log,
    mergeDomainConfigs,
    spelling,
  })
  return {
    configuration,
    log,
    errors,
    warnings,
    /**
     * `a:1 b:2`: the domains in force, sorted, each with its first limit; undefined before the first load.
     */
    inForce(): string | undefined {
      const limits = configuration.rules()?.limits
      return limits
        ?.map(({ fullKey, requestsPerUnit }) => `${fullKey.split('.')[0]}:${requestsPerUnit}`)
        .sort()
        .join(' ')
    },
    loads: () => stats.counter('ratelimit.service.config_load_success').value,
    refusals: () => stats.counter('ratelimit.service.config_load_error').value,
  }
}
