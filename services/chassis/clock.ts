import { performance } from 'node:perf_hooks'

/** The time, as a parameter: production passes `systemClock`, a test passes its own clock. */
export interface Clock {
  /** Returns the milliseconds since the Unix epoch; may step when the machine's clock is set. */
  nowMs(): number
  /** Returns milliseconds from an arbitrary start, which never decrease. For durations and deadlines. */
  monotonicMs(): number
}

/**
 * The system's clock. It imports `performance`, since looking up the global takes longer than reading the
 * time.
 */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
