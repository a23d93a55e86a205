import type { Clock } from '@tollway/chassis/clock.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'

/**
 * The limits of API calls: by address, by API key, and by address for unknown keys. In the rate limit
 * service, these names are descriptor keys.
 */
export const callRules = ['address', 'key', 'failed_key'] as const
type CallRule = (typeof callRules)[number]

/** The maximum number of calls a minute with one value, by rule. */
type CallsPerMinute = Readonly<Record<CallRule, number>>

export interface CallHit {
  readonly rule: CallRule
  /** The address, or the name of the API key, never the key itself. */
  readonly value: string
}

export interface CallLimitExceeded {
  readonly rule: CallRule
  /** How long to wait before the next call; always above zero. */
  readonly waitMs: number
}

export interface CallLimits {
  /** Counts the hits. Resolves with the first limit that is exceeded, or null. The promise never rejects. */
  take(hits: readonly CallHit[]): Promise<CallLimitExceeded | null>
  close(): void
}

/** Counts calls in this process, in tables of a fixed size. */
export function createLocalCallLimits(perMinute: CallsPerMinute, clock: Clock): CallLimits {
  const limits = {
    address: new KeyedRateLimiter(perMinute.address, clock),
    key: new KeyedRateLimiter(perMinute.key, clock),
    failed_key: new KeyedRateLimiter(perMinute.failed_key, clock),
  }
  return {
    async take(hits) {
      for (const { rule, value } of hits) {
        const waitMs = limits[rule].take(value)
        if (waitMs > 0) return { rule, waitMs }
      }
      return null
    },
    close() {},
  }
}
