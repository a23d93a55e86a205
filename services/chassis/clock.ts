/** The time, as a parameter: production passes `systemClock`, a test passes its own. */
export interface Clock {
  /** Milliseconds since the Unix epoch; may step when the machine's clock is set. */
  nowMs(): number
  /** Milliseconds from an arbitrary start; never goes back. For durations and deadlines. */
  monotonicMs(): number
}

export const systemClock: Clock = {
  nowMs: () => Date.now(),
  monotonicMs: () => performance.now(),
}
