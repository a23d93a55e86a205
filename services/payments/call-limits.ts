import type { Clock } from '@tollway/chassis/clock.ts'
import { KeyedRateLimiter } from '@tollway/chassis/limits/rate-limiter.ts'

/** The rules that limit calls of the API. The rate limit service knows these names as descriptor keys. */
export const callRules = ['address', 'key', 'failed_key'] as const
export type CallRule = (typeof callRules)[number]

/** The calls a minute that one value of each rule may make. */
export type CallsPerMinute = Readonly<Record<CallRule, number>>

export interface CallHit {
  readonly rule: CallRule
  /** Calls with the same value share a counter. Never an API key itself. */
  readonly value: string
}

/** The rule that rejects a call, and the wait before a retry. */
export interface CallLimitExceeded {
  readonly rule: CallRule
  /** The time is above zero. */
  readonly waitMs: number
}

/** Limits the calls of the API. */
export interface CallLimits {
  /** Counts one hit of each. Resolves with a rejection when a hit is over its limit. Never rejects. */
  take(hits: readonly CallHit[]): Promise<CallLimitExceeded | null>
  close(): void
}

/** Limits calls in this process alone, in tables of a fixed size. */
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
