import type { Clock } from '@tollway/chassis/clock.ts'
import { type Counters, type Hit, maxCount } from './counters.ts'
import { withHealth } from './with-health.ts'

export interface BackendHealthOptions {
  readonly counters: Pick<Counters, 'add' | 'healthy' | 'problem' | 'onHealth'>
  readonly errors: Pick<ErrorWatch, 'problem' | 'onChange'>
  /** The setting KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION; see `createBackendHealth`. */
  readonly checkActiveConnection: boolean
  /** The setting CACHE_KEY_PREFIX. The ACL of a Redis user may allow only keys with this prefix. */
  readonly cacheKeyPrefix: string
}

/** The delay, after a probe failed, before it is sent again. */
const retryMs = 500

/** Returns two probes, since the limits per second may have a separate backend. */
function createProbes(cacheKeyPrefix: string): readonly Hit[] {
  const probe = { key: `${cacheKeyPrefix}tollway_probe`, hits: 0, expirySeconds: 1, limit: maxCount }
  return [probe, { ...probe, perSecond: true }]
}

/**
 * Sends one probe. Rejects with the reason when the backend has no connection, does not answer in time, or
 * answers with an error.
 */
export async function probeBackend(
  counters: Pick<Counters, 'add' | 'healthy' | 'problem'>,
  cacheKeyPrefix: string,
): Promise<void> {
  if (!counters.healthy) throw new Error(counters.problem)
  await counters.add(createProbes(cacheKeyPrefix))
}

/**
 * The backend's part in the service's health: unhealthy until the backend has answered one call. A new
 * instance whose Redis user may not read the counters thus never becomes healthy, and a rollout stops there.
 *
 * With `checkActiveConnection` the service is also unhealthy while it has no connection to the backend, and
 * while the backend answers every call with an error. Without it the service stays healthy, as
 * envoyproxy/ratelimit does: it answers errors fast and its callers decide how to handle them, while a health
 * check that depends on the backend would take all instances out of service at once.
 */
export function createBackendHealth(
  options: BackendHealthOptions,
): Pick<Counters, 'healthy' | 'problem' | 'onHealth'> {
  const { counters, errors, checkActiveConnection, cacheKeyPrefix } = options
  const probes = createProbes(cacheKeyPrefix)
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

/** Detects that a backend answers all calls with errors. */
export interface ErrorWatch {
  /** Records a call that was counted. */
  succeeded(): void
  /** Records a call that was not counted. */
  failed(error: Error): void
  /** The last error, while all calls fail (see `errorWatchLimits`); empty otherwise. */
  readonly problem: string
  /** Adds a listener that is called when `problem` becomes empty or stops being empty. */
  onChange(listener: () => void): void
}

export const errorWatchLimits = {
  /**
   * The problem is reported when at least this many calls have failed in a row, over at least `failingMs`.
   */
  failures: 10,
  /** The least time between the first and the last of these failed calls. */
  failingMs: 3_000,
  /**
   * The problem is cleared after this time without a call: an unhealthy instance may get no calls, and only a
   * call shows that the backend has recovered.
   */
  idleMs: 10_000,
} as const

export function createErrorWatch(clock: Clock): ErrorWatch {
  const { failures: maxFailures, failingMs, idleMs } = errorWatchLimits
  const listeners: (() => void)[] = []
  let failures = 0
  let firstMs = 0
  let lastMs = 0
  let timer: NodeJS.Timeout | undefined
  // A field, because V8 would keep an object with an accessor as a slow hash table.
  const watch: ErrorWatch & { problem: string } = {
    problem: '',
    succeeded() {
      failures = 0
      if (watch.problem !== '') change('')
    },
    failed({ message }) {
      lastMs = clock.monotonicMs()
      if (failures === 0) firstMs = lastMs
      failures += 1
      if (watch.problem !== '') watch.problem = message
      else if (failures >= maxFailures && lastMs - firstMs >= failingMs) change(message)
    },
    onChange: listener => listeners.push(listener),
  }

  function change(problem: string): void {
    watch.problem = problem
    clearTimeout(timer)
    if (problem !== '') awaitIdle(idleMs)
    for (const listener of listeners) listener()
  }

  function awaitIdle(waitMs: number): void {
    timer = setTimeout(() => {
      const leftMs = lastMs + idleMs - clock.monotonicMs()
      if (leftMs > 0) awaitIdle(leftMs)
      else watch.succeeded()
    }, waitMs)
    timer.unref()
  }

  return watch
}
