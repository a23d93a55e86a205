import type { Clock } from '@tollway/chassis/clock.ts'
import { createRateLimit } from '@tollway/chassis/limits/rate-limit.ts'
import type { CallLimits, CallsPerMinute } from './call-limits.ts'

/** Limits calls in this process alone, in tables of a fixed size. */
export function createLocalCallLimits(perMinute: CallsPerMinute, clock: Clock): CallLimits {
  const limits = {
    address: createRateLimit(perMinute.address, clock),
    key: createRateLimit(perMinute.key, clock),
    failed_key: createRateLimit(perMinute.failed_key, clock),
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
