import type { Counters } from './counters.ts'
import { withHealth } from './with-health.ts'

/**
 * The counters' share in the health of the service: unhealthy until the backend has answered once. Whether it
 * is unhealthy again when the backend is lost is a choice (KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION): a service
 * that stays healthy answers errors fast, and its callers choose what these mean; one that becomes unhealthy
 * may have all its instances taken out of service at once.
 */
export function createBackendHealth(
  counters: Pick<Counters, 'healthy' | 'problem' | 'onHealth'>,
  checkActiveConnection: boolean,
): Pick<Counters, 'healthy' | 'problem' | 'onHealth'> {
  let answered = counters.healthy
  counters.onHealth(healthy => {
    answered ||= healthy
  })
  const isHealthy = () => counters.healthy || (answered && !checkActiveConnection)
  const onHealth = (listener: (healthy: boolean) => void) => {
    let last = isHealthy()
    counters.onHealth(() => {
      if (isHealthy() === last) return
      last = !last
      listener(last)
    })
  }
  return withHealth(
    { onHealth },
    { healthy: isHealthy, problem: () => (isHealthy() ? '' : counters.problem) },
  )
}
