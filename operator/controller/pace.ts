import { setTimeout as pause } from 'node:timers/promises'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'

/** Limits how often something starts. */
export interface Pace {
  /** Resolves in the order of the calls: true when the next start is allowed, false at the stop. */
  turn(): Promise<boolean>
  /** Starts now if that is allowed without a wait; false if it is not. */
  tryTurn(): boolean
  /** Ends every wait. */
  stop(): void
}

/**
 * @param perSecond the starts a second over a longer time
 * @param burst the starts that need no wait after a quiet time
 */
export function createPace(perSecond: number, burst: number, clock: Clock = systemClock): Pace {
  const spacingMs = 1000 / perSecond
  const stopping = new AbortController()
  /** The time of the next start without a burst. */
  let nextMs = Number.NEGATIVE_INFINITY
  const dueMs = (nowMs: number) => Math.max(nextMs, nowMs - burst * spacingMs) + spacingMs

  return {
    tryTurn() {
      const nowMs = clock.monotonicMs()
      if (dueMs(nowMs) > nowMs) return false
      nextMs = dueMs(nowMs)
      return true
    },
    async turn() {
      const nowMs = clock.monotonicMs()
      nextMs = dueMs(nowMs)
      const waitMs = nextMs - nowMs
      if (waitMs > 0) await pause(waitMs, undefined, { signal: stopping.signal }).catch(() => {})
      return !stopping.signal.aborted
    },
    stop: () => stopping.abort(),
  }
}
