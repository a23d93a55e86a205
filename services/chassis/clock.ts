import { performance } from 'node:perf_hooks'

/** The time, as a parameter: production passes `systemClock`, a test passes its own. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may step when the machine's clock is set. */
  nowMs(): number
  /** Milliseconds from an arbitrary start; never goes back. For durations and deadlines. */
  monotonicMs(): number
}

/** The global `performance` is looked up at each use, which takes longer than to tell the time. */
export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
