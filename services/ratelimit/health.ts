import { ServiceHealth } from '@tollway/chassis/health/service-health.ts'
import type { Configuration } from './config/configuration.ts'
import type { Counters } from './counters/counters.ts'

interface HealthOptions {
  readonly counters: Pick<Counters, 'healthy' | 'problem' | 'onHealth'>
  readonly configuration: Pick<Configuration, 'rules' | 'onLoad'>
  /** Whether health requires at least one domain: HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED. */
  readonly withConfig: boolean
}

/**
 * Creates the health of the service: healthy while the counters and the process are healthy, and there is a
 * domain if `withConfig` requires one.
 */
export function createRateLimitHealth({ counters, configuration, withConfig }: HealthOptions): ServiceHealth {
  const health = new ServiceHealth(isServing => {
    if (!counters.healthy) return `the backend of its counters is away: ${counters.problem}`
    if (!isServing) return 'waits for its configuration'
    const hasDomains = (configuration.rules()?.domains.size ?? 0) > 0
    return hasDomains || !withConfig ? '' : 'has no domain yet'
  })
  counters.onHealth(health.check)
  configuration.onLoad(health.check)
  return health
}
