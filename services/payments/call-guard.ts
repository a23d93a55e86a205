import { hash } from 'node:crypto'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { addressKey } from '@tollway/chassis/limits/address-key.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { type CallLimitExceeded, type CallLimits, callRules, createLocalCallLimits } from './call-limits.ts'
import type { Metrics } from './metrics.ts'
import type { Settings } from './settings.ts'

/** Limits the calls of the API by address and by key. */
export interface CallGuard {
  /**
   * Counts a call before its key is looked up. Resolves with null if the call may run. @param apiKey null if
   * there is none
   */
  admit(address: string, apiKey: string | null): Promise<CallLimitExceeded | null>
  /**
   * Counts a call with an unknown key. Above the limit of unknown keys, `admit` rejects the address for a
   * time.
   */
  countFailedKey(address: string): Promise<CallLimitExceeded | null>
  /**
   * Runs `work`, a call that looks up its API key. For each address, at most `maxUnprovenAtOnce` calls run at
   * the same time with keys that this process has not authenticated yet. Others wait, and are rejected if the
   * address exceeds the limit of unknown keys meanwhile.
   *
   * @param isUnknown returns whether the result means that the key is unknown
   */
  lookUp<T>(
    caller: { readonly address: string; readonly apiKey: string },
    work: () => Promise<T>,
    isUnknown: (result: T) => boolean,
  ): Promise<T | CallLimitExceeded>
}

/** @param onRejected called for each rejected call */
export function createCallGuard(
  limits: CallLimits,
  clock: Clock,
  onRejected: (rejection: CallLimitExceeded) => void = () => {},
): CallGuard {
  /**
   * The addresses that are rejected for a time. Only `cooldown` and `waitMs` are used, so the rate has no
   * effect.
   */
  const blocked = new KeyedRateLimiter(1, clock)
  const lookups = createKeyLookups(maxUnprovenAtOnce)
  const report = (rejection: CallLimitExceeded | null) => {
    if (rejection !== null) onRejected(rejection)
    return rejection
  }
  async function countFailedKey(address: string): Promise<CallLimitExceeded | null> {
    const value = addressKey(address)
    const rejection = await limits.take([{ rule: 'failed_key', value }])
    if (rejection !== null) blocked.cooldown(value, rejection.waitMs)
    return report(rejection)
  }

  return {
    async admit(address, apiKey) {
      const value = addressKey(address)
      const waitMs = blocked.waitMs(value)
      if (waitMs > 0) return report({ rule: 'failed_key', waitMs })
      const hits = [{ rule: 'address', value }] as const
      if (apiKey === null) return report(await limits.take(hits))
      return report(await limits.take([...hits, { rule: 'key', value: nameOfKey(apiKey) }]))
    },
    countFailedKey,
    async lookUp({ address, apiKey }, work, isUnknown) {
      const value = addressKey(address)
      const outcome = await lookups.run({
        address: value,
        key: nameOfKey(apiKey),
        isRejected: () => blocked.waitMs(value) > 0,
        async work() {
          const result = await work()
          const unknown = isUnknown(result)
          // Counts here, before the next waiting call of the address runs.
          return { result, unknown, rejection: unknown ? await countFailedKey(address) : null }
        },
        opened: ({ unknown }) => !unknown,
      })
      const rejected = { rule: 'failed_key', waitMs: blocked.waitMs(value) } as const
      if (outcome === undefined) return report(rejected) ?? rejected
      return outcome.rejection ?? outcome.result
    },
  }
}

/**
 * The maximum number of simultaneous calls of one address with keys that this process has not authenticated.
 */
const maxUnprovenAtOnce = 8
const nameCharacters = 32

/**
 * Returns the name of a key in counters and in the rate limit service. It is a hash, but not the one that
 * authenticates the key.
 */
function nameOfKey(apiKey: string): string {
  return hash('sha256', `calls of ${apiKey}`, 'hex').slice(0, nameCharacters)
}

/** Limits how many keys of one address are looked up at the same time. */
interface KeyLookups {
  /**
   * Runs a call. If the key was not authenticated before, first waits until fewer than the maximum of such
   * calls of the address run. Resolves with undefined if `isRejected` returns true after the wait.
   */
  run<T>(call: KeyLookup<T>): Promise<T | undefined>
}

interface KeyLookup<T> {
  readonly address: string
  /** The result of `nameOfKey`, never the key itself. */
  readonly key: string
  readonly isRejected: () => boolean
  readonly work: () => Promise<T>
  /** Returns whether the key was authenticated. */
  readonly opened: (result: T) => boolean
}

interface AddressLookups {
  running: number
  readonly waiting: (() => void)[]
}

/**
 * At most this many authenticated keys are remembered; the one authenticated longest ago is removed first.
 */
const maxProven = 10_000

function createKeyLookups(maxAtOnce: number): KeyLookups {
  const proven = new Set<string>()
  const addresses = new Map<string, AddressLookups>()

  function prove(key: string, opened: boolean): void {
    proven.delete(key)
    if (opened) proven.add(key)
    const [oldest] = proven
    if (proven.size > maxProven && oldest !== undefined) proven.delete(oldest)
  }

  async function enter(address: string, key: string): Promise<AddressLookups | undefined> {
    for (;;) {
      if (proven.has(key)) return undefined
      const lookups = addresses.get(address) ?? { running: 0, waiting: [] }
      addresses.set(address, lookups)
      if (lookups.running < maxAtOnce) {
        lookups.running += 1
        return lookups
      }
      await new Promise<void>(resolve => lookups.waiting.push(resolve))
    }
  }

  function leave(address: string, lookups: AddressLookups): void {
    lookups.running -= 1
    // Wakes all waiting calls, because their key may be authenticated now, or the address rejected.
    for (const wake of lookups.waiting.splice(0)) wake()
    if (lookups.running === 0) addresses.delete(address)
  }

  return {
    async run({ address, key, isRejected, work, opened }) {
      const lookups = await enter(address, key)
      try {
        if (isRejected()) return undefined
        const result = await work()
        prove(key, opened(result))
        return result
      } finally {
        if (lookups !== undefined) leave(address, lookups)
      }
    },
  }
}

/** Creates the limits of API calls: in the rate limit service if one is configured, else in this process. */
export async function openCallGuard(
  settings: Settings,
  log: Log,
  metrics: Metrics,
): Promise<{ readonly guard: CallGuard; close(): void }> {
  const limits = await openLimits(settings, log, metrics)
  const count = metrics.counter('payments_calls_refused_total', 'API calls over a limit, by the limit.')
  for (const rule of callRules) count({ rule }, 0)
  return {
    guard: createCallGuard(limits, systemClock, ({ rule }) => count({ rule })),
    close: () => limits.close(),
  }
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
