import { createServiceHealth, type ServiceHealth } from '@tollway/chassis/health/service-health.ts'
import type { StreamLog } from './stream-log/stream-log.ts'

/**
 * Healthy when the log has answered once, the routes are loaded, and the process is not stopping. A log that
 * fails later does not make the process unhealthy: that would take all brokers of a Redis out of service at
 * once, while their callers get an error that names the cause.
 */
export function createHealth(log: Pick<StreamLog, 'healthy' | 'problem' | 'onHealth'>): ServiceHealth {
  let answered = log.healthy
  const health = createServiceHealth(isServing => {
    if (!isServing) return 'has no routes yet'
    return answered ? '' : `the stream log is unavailable: ${log.problem}`
  })
  log.onHealth(healthy => {
    answered ||= healthy
    health.check()
  })
  return health
}
