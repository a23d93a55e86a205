import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'

/**
 * Limits all calls to a failing server to a few a second: hundreds of retries must not prevent its recovery.
 * One successful answer removes the limit.
 */
export interface OutagePace {
  /** Resolves when the next call may be sent, at once without an outage. Rejects when the signal aborts. */
  turn(signal: AbortSignal): Promise<void>
  answered(): void
  failed(): void
}

export function createOutagePace(clock: Clock, spacingMs: number): OutagePace {
  let inTrouble = false
  let lastTurnMs = Number.NEGATIVE_INFINITY
  return {
    async turn(signal) {
      const nowMs = clock.monotonicMs()
      lastTurnMs = inTrouble ? Math.max(nowMs, lastTurnMs + spacingMs) : nowMs
      if (lastTurnMs > nowMs) await pause(lastTurnMs - nowMs, undefined, { signal })
    },
    answered() {
      inTrouble = false
    },
    failed() {
      inTrouble = true
    },
  }
}
