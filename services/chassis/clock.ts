import { performance } from 'node:perf_hooks'

/** The time, as a parameter: production passes `systemClock`, a test passes its own clock. */
export interface Clock {
  /**
   * Returns the milliseconds since the Unix epoch. The value may jump when the clock of the machine is set.
   */
  nowMs(): number
  /** Returns the milliseconds since an arbitrary start, which never decrease: for durations and deadlines. */
  monotonicMs(): number
}

/** `performance` is imported, because looking up the global takes longer than reading the time. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
