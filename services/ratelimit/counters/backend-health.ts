import { type Counters, type Hit, maxCount } from './counters.ts'
import type { ErrorWatch } from './error-watch.ts'
import { withHealth } from './with-health.ts'

export interface BackendHealthOptions {
  readonly counters: Pick<Counters, 'add' | 'healthy' | 'problem' | 'onHealth'>
  readonly errors: Pick<ErrorWatch, 'problem' | 'onChange'>
  /** KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION. */
  readonly checkActiveConnection: boolean
  /** CACHE_KEY_PREFIX: a user of Redis may have access to keys with this prefix alone. */
  readonly cacheKeyPrefix: string
}

/** The wait before the backend is asked again whether it answers calls. */
const retryMs = 500

/**
 * The counters' share in the health of the service: unhealthy until the backend has answered a call once. A new
 * instance whose user of Redis may not read the counters never becomes healthy, so that a rollout stops there.
 *
 * With `checkActiveConnection` the service is also unhealthy while it has no connection to the backend, and while the
 * backend answers calls with nothing but errors. Without it the service stays healthy, as the reference does: it
 * answers errors fast and its callers decide what these mean, while an unhealthy backend would take all instances
 * out of service at once.
 */
export function createBackendHealth(
  options: BackendHealthOptions,
): Pick<Counters, 'healthy' | 'problem' | 'onHealth'> {
  const { counters, errors, checkActiveConnection, cacheKeyPrefix } = options
  const probe = { key: `${cacheKeyPrefix}tollway_probe`, hits: 0, expirySeconds: 1, limit: maxCount }
  // One for each backend, where limits per second have one.
  const probes: readonly Hit[] = [probe, { ...probe, perSecond: true }]
  const listeners: ((healthy: boolean) => void)[] = []
  let answered = false
  let asking = false
  let probeProblem = 'the backend has not answered a call yet'
  let last = false

  function ask(): void {
    if (answered || asking || !counters.healthy) return
    const values = counters.add(probes)
    if (values instanceof Promise) void askLater(values)
    else answered = true
  }

  async function askLater(values: Promise<unknown>): Promise<void> {
    asking = true
    try {
      await values
      answered = true
    } catch (error) {
      probeProblem = (error as Error).message
      setTimeout(ask, retryMs).unref()
    }
    asking = false
    check()
  }

  function problem(): string {
    if (!answered) return counters.healthy ? probeProblem : counters.problem
    if (!checkActiveConnection) return ''
    return counters.healthy ? errors.problem : counters.problem
  }

  function check(): void {
    if ((problem() === '') === last) return
    last = !last
    for (const listener of listeners) listener(last)
  }

  ask()
  last = problem() === ''
  counters.onHealth(() => {
    ask()
    check()
  })
  errors.onChange(check)
  function onHealth(listener: (healthy: boolean) => void): void {
    listeners.push(listener)
  }

  return withHealth({ onHealth }, { healthy: () => problem() === '', problem })
}
