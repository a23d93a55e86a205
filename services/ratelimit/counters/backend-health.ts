import type { Clock } from '@tollway/chassis/clock.ts'
import { type Counters, type Hit, maxCount } from './counters.ts'

/** The delay, after a probe failed, before it is sent again. */
const retryMs = 500

/** Returns two probes, since the limits per second may have a separate backend. */
function createProbes(cacheKeyPrefix: string): readonly Hit[] {
  const probe = { key: `${cacheKeyPrefix}tollway_probe`, hits: 0, expirySeconds: 1, limit: maxCount }
  return [probe, { ...probe, perSecond: true }]
}

/**
 * Sends one probe. Rejects with the reason when the backend has no connection or does not answer well in
 * time.
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
export class BackendHealth implements Pick<Counters, 'healthy' | 'problem' | 'onHealth'> {
  readonly #counters: Pick<Counters, 'add' | 'healthy' | 'problem' | 'onHealth'>
  readonly #errors: Pick<ErrorWatch, 'problem' | 'onChange'>
  readonly #checkActiveConnection: boolean
  readonly #probes: readonly Hit[]
  readonly #listeners: ((healthy: boolean) => void)[] = []
  #answered = false
  #asking = false
  #probeProblem = 'the backend has not answered a call yet'
  #last: boolean

  /**
   * @param checkActiveConnection the setting KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION
   * @param cacheKeyPrefix the setting CACHE_KEY_PREFIX. The ACL of a Redis user may allow only keys with this
   * prefix.
   */
  constructor(
    counters: Pick<Counters, 'add' | 'healthy' | 'problem' | 'onHealth'>,
    errors: Pick<ErrorWatch, 'problem' | 'onChange'>,
    checkActiveConnection: boolean,
    cacheKeyPrefix: string,
  ) {
    this.#counters = counters
    this.#errors = errors
    this.#checkActiveConnection = checkActiveConnection
    this.#probes = createProbes(cacheKeyPrefix)
    this.#ask()
    this.#last = this.healthy
    counters.onHealth(() => {
      this.#ask()
      this.#check()
    })
    errors.onChange(() => this.#check())
  }

  get healthy(): boolean {
    return this.problem === ''
  }

  get problem(): string {
    const { healthy, problem } = this.#counters
    if (!this.#answered) return healthy ? this.#probeProblem : problem
    if (!this.#checkActiveConnection) return ''
    return healthy ? this.#errors.problem : problem
  }

  onHealth(listener: (healthy: boolean) => void): void {
    this.#listeners.push(listener)
  }

  #ask(): void {
    if (this.#answered || this.#asking || !this.#counters.healthy) return
    const values = this.#counters.add(this.#probes)
    if (values instanceof Promise) void this.#await(values)
    else this.#answered = true
  }

  async #await(values: Promise<unknown>): Promise<void> {
    this.#asking = true
    try {
      await values
      this.#answered = true
    } catch (error) {
      this.#probeProblem = (error as Error).message
      setTimeout(() => this.#ask(), retryMs).unref()
    }
    this.#asking = false
    this.#check()
  }

  #check(): void {
    if (this.healthy === this.#last) return
    this.#last = !this.#last
    for (const listener of this.#listeners) listener(this.#last)
  }
}

export const errorWatchLimits = {
  /** The problem is reported when this many calls have failed in a row, over at least `failingMs`. */
  failures: 10,
  /** The least time between the first and the last of these failed calls. */
  failingMs: 3_000,
  /**
   * The problem is cleared after this time without a call: an unhealthy instance may get no calls, and only a
   * call shows that the backend has recovered.
   */
  idleMs: 10_000,
} as const

/** Detects that a backend answers all calls with errors. */
export class ErrorWatch {
  readonly #clock: Clock
  readonly #listeners: (() => void)[] = []
  #failures = 0
  #firstMs = 0
  #lastMs = 0
  #timer: NodeJS.Timeout | undefined
  /** The last error, while all calls fail (see `errorWatchLimits`); empty otherwise. */
  problem = ''

  constructor(clock: Clock) {
    this.#clock = clock
  }

  succeeded(): void {
    this.#failures = 0
    if (this.problem !== '') this.#change('')
  }

  failed({ message }: Error): void {
    this.#lastMs = this.#clock.monotonicMs()
    if (this.#failures === 0) this.#firstMs = this.#lastMs
    this.#failures += 1
    const { failures, failingMs } = errorWatchLimits
    if (this.problem !== '') this.problem = message
    else if (this.#failures >= failures && this.#lastMs - this.#firstMs >= failingMs) this.#change(message)
  }

  /** Adds a listener that is called when `problem` becomes empty or stops being empty. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  #change(problem: string): void {
    this.problem = problem
    clearTimeout(this.#timer)
    if (problem !== '') this.#awaitIdle(errorWatchLimits.idleMs)
    for (const listener of this.#listeners) listener()
  }

  #awaitIdle(waitMs: number): void {
    this.#timer = setTimeout(() => {
      const leftMs = this.#lastMs + errorWatchLimits.idleMs - this.#clock.monotonicMs()
      if (leftMs > 0) this.#awaitIdle(leftMs)
      else this.succeeded()
    }, waitMs)
    this.#timer.unref()
  }
}
