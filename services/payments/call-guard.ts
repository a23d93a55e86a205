import { hash } from 'node:crypto'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { addressKey } from '@tollway/chassis/limits/address-key.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { type CallLimitExceeded, type CallLimits, callRules, createLocalCallLimits } from './call-limits.ts'
import type { Metrics } from './metrics.ts'
import type { Settings } from './settings.ts'

/** The maximum number of simultaneous calls of one address with keys that this process has not authenticated. */
const maxUnprovenAtOnce = 8
/** At most this many authenticated keys are remembered; the one authenticated longest ago is removed first. */
const maxProven = 10_000
const nameCharacters = 32

interface UnprovenCalls {
  running: number
  readonly waiting: (() => void)[]
}

/** Limits the calls of the API by address and by key. */
export class CallGuard {
  readonly #limits: CallLimits
  readonly #onRejected: (rejection: CallLimitExceeded) => void
  /** The addresses that are rejected for a time. They use only the cooldown, not the rate. */
  readonly #blocked: KeyedRateLimiter
  /** The names of keys that were authenticated, the latest last. */
  readonly #proven = new Set<string>()
  readonly #unproven = new Map<string, UnprovenCalls>()

  /** @param onRejected called for each rejected call */
  constructor(
    limits: CallLimits,
    clock: Clock,
    onRejected: (rejection: CallLimitExceeded) => void = () => {},
  ) {
    this.#limits = limits
    this.#onRejected = onRejected
    this.#blocked = new KeyedRateLimiter(1, clock)
  }

  /**
   * Counts a call before its key is looked up. Resolves with null if the call may run.
   *
   * @param apiKey null if the call has none
   */
  async admit(address: string, apiKey: string | null): Promise<CallLimitExceeded | null> {
    const value = addressKey(address)
    const waitMs = this.#blocked.waitMs(value)
    if (waitMs > 0) return this.#report({ rule: 'failed_key', waitMs })
    const hits = [{ rule: 'address', value }] as const
    if (apiKey === null) return this.#report(await this.#limits.take(hits))
    return this.#report(await this.#limits.take([...hits, { rule: 'key', value: nameOfKey(apiKey) }]))
  }

  /** Counts a call with an unknown key. Above the limit of unknown keys, `admit` rejects the address for a time. */
  async countFailedKey(address: string): Promise<CallLimitExceeded | null> {
    const value = addressKey(address)
    const rejection = await this.#limits.take([{ rule: 'failed_key', value }])
    if (rejection !== null) this.#blocked.cooldown(value, rejection.waitMs)
    return this.#report(rejection)
  }

  /**
   * Runs `work`, a call that looks up its API key. For each address, at most `maxUnprovenAtOnce` calls run at
   * the same time with keys that this process has not authenticated yet. Others wait, and are rejected if the
   * address exceeds the limit of unknown keys meanwhile.
   *
   * @param isUnknown returns whether the result means that the key is unknown
   */
  async lookUp<T>(
    { address, apiKey }: { readonly address: string; readonly apiKey: string },
    work: () => Promise<T>,
    isUnknown: (result: T) => boolean,
  ): Promise<T | CallLimitExceeded> {
    const value = addressKey(address)
    const key = nameOfKey(apiKey)
    const calls = await this.#enter(value, key)
    try {
      const waitMs = this.#blocked.waitMs(value)
      if (waitMs > 0) return this.#report({ rule: 'failed_key', waitMs })
      const result = await work()
      const unknown = isUnknown(result)
      this.#remember(key, !unknown)
      // Counts here, before the next waiting call of the address runs.
      return (unknown ? await this.countFailedKey(address) : null) ?? result
    } finally {
      if (calls !== undefined) this.#leave(value, calls)
    }
  }

  close(): void {
    this.#limits.close()
  }

  #report<R extends CallLimitExceeded | null>(rejection: R): R {
    if (rejection !== null) this.#onRejected(rejection)
    return rejection
  }

  /** Waits until fewer than `maxUnprovenAtOnce` calls run. Resolves with undefined for a proven key. */
  async #enter(address: string, key: string): Promise<UnprovenCalls | undefined> {
    for (;;) {
      if (this.#proven.has(key)) return undefined
      const calls = this.#unproven.get(address) ?? { running: 0, waiting: [] }
      this.#unproven.set(address, calls)
      if (calls.running < maxUnprovenAtOnce) {
        calls.running += 1
        return calls
      }
      await new Promise<void>(resolve => calls.waiting.push(resolve))
    }
  }

  #leave(address: string, calls: UnprovenCalls): void {
    calls.running -= 1
    // Wakes all waiting calls: a call's key may be authenticated now, or the address may be rejected.
    for (const wake of calls.waiting.splice(0)) wake()
    if (calls.running === 0) this.#unproven.delete(address)
  }

  #remember(key: string, isProven: boolean): void {
    this.#proven.delete(key)
    if (isProven) this.#proven.add(key)
    const [oldest] = this.#proven
    if (this.#proven.size > maxProven && oldest !== undefined) this.#proven.delete(oldest)
  }
}

/**
 * Names a key in counters and in the rate limit service. This is another hash than the one that authenticates
 * the key.
 */
function nameOfKey(apiKey: string): string {
  return hash('sha256', `calls of ${apiKey}`, 'hex').slice(0, nameCharacters)
}

/**
 * Opens the limits of API calls: in the rate limit service if one is configured, otherwise in this process.
 */
export async function openCallGuard(settings: Settings, log: Log, metrics: Metrics): Promise<CallGuard> {
  const limits = await openLimits(settings, log, metrics)
  const count = metrics.counter('payments_calls_refused_total', 'API calls over a limit, by the limit.')
  for (const rule of callRules) count({ rule }, 0)
  return new CallGuard(limits, systemClock, ({ rule }) => count({ rule }))
}

async function openLimits(settings: Settings, log: Log, metrics: Metrics): Promise<CallLimits> {
  const { apiCallsPerAddress, apiCallsPerKey, apiFailedKeysPerAddress, rateLimitAddress } = settings
  const perMinute = { address: apiCallsPerAddress, key: apiCallsPerKey, failed_key: apiFailedKeysPerAddress }
  const local = createLocalCallLimits(perMinute, systemClock)
  if (rateLimitAddress === '') return local
  const help = 'Failed calls of the rate limit service. The process limits API calls by itself meanwhile.'
  const count = metrics.counter('payments_rate_limit_failures_total', help)
  count({}, 0)
  // Loaded only if it is used, because the gRPC library needs memory.
  const { createServiceCallLimits } = await import('./service-call-limits.ts')
  return createServiceCallLimits({
    address: rateLimitAddress,
    domain: settings.rateLimitDomain,
    timeoutMs: settings.rateLimitTimeoutMs,
    local,
    clock: systemClock,
    onFailure(reason) {
      count({})
      log.warn('call rate limit service failed', { reason })
    },
  })
}
