/** The delays between attempts: each is longer than the last, up to a maximum, minus a random share. */
export interface Backoff {
  /** Returns the delay in milliseconds before the next attempt. */
  nextMs(): number
  /** To be called after a success: the next delay is `initialMs` again. */
  reset(): void
}

export interface BackoffOptions {
  readonly initialMs: number
  readonly maxMs: number
  readonly factor: number
  /** The random share of a delay, from 0 to 1: with 0.5 a delay lasts from half of its time to all of it. */
  readonly jitter: number
  /** Returns a number uniform in [0, 1). */
  readonly random: () => number
}

export function createBackoff(options: BackoffOptions): Backoff {
  const initialMs = Math.min(options.initialMs, options.maxMs)
  let baseMs = initialMs
  return {
    nextMs() {
      const waitMs = baseMs * (1 - options.jitter * options.random())
      baseMs = Math.min(options.maxMs, baseMs * options.factor)
      return waitMs
    },
    reset() {
      baseMs = initialMs
    },
  }
}
