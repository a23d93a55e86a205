import { type Counters, type Hit, maxCount } from './counters.ts'
import type { ErrorWatch } from './error-watch.ts'
import { withHealth } from './with-health.ts'

export interface BackendHealthOptions {
  readonly counters: Pick<Counters, 'add' | 'healthy' | 'problem' | 'onHealth'>
  readonly errors: Pick<ErrorWatch, 'problem' | 'onChange'>
  /** KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION. */
  readonly checkActiveConnection: boolean
  /** CACHE_KEY_PREFIX. The ACL of a Redis user may allow only keys with this prefix. */
  readonly cacheKeyPrefix: string
}

/** The delay before the probe is sent again after it failed. */
const retryMs = 500

/** Returns one probe for each backend: per-second limits may have a separate one. */
function probesOf(cacheKeyPrefix: string): readonly Hit[] {
  const probe = { key: `${cacheKeyPrefix}tollway_probe`, hits: 0, expirySeconds: 1, limit: maxCount }
  return [probe, { ...probe, perSecond: true }]
}

/** Rejects with the reason when the backend has no connection, or does not answer a call. */
export async function probeBackend(
  counters: Pick<Counters, 'add' | 'healthy' | 'problem'>,
  cacheKeyPrefix: string,
): Promise<void> {
  if (!counters.healthy) throw new Error(counters.problem)
  await counters.add(probesOf(cacheKeyPrefix))
}

/**
 * The backend's contribution to the service's health: unhealthy until the backend has answered one call. A
 * new instance whose Redis user may not read the counters never becomes healthy, so that a rollout stops
 * there.
 *
 * With `checkActiveConnection` the service is also unhealthy while it has no connection to the backend, and
 * while the backend answers every call with an error. Without it the service stays healthy, as the reference
 * does: it answers errors fast and its callers decide how to handle them, while a health check that depends
 * on the backend would take all instances out of service at once.
 */
export function createBackendHealth(
  options: BackendHealthOptions,
): Pick<Counters, 'healthy' | 'problem' | 'onHealth'> {
  const { counters, errors, checkActiveConnection, cacheKeyPrefix } = options
  const probes = probesOf(cacheKeyPrefix)
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
