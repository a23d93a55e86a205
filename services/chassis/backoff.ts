/** Delays between attempts: exponential, with jitter, and reset after a success. */
export interface Backoff {
  /** Returns the delay in milliseconds before the next attempt. */
  nextMs(): number
  /** Starts again with the first delay, after a success. */
  reset(): void
}

export interface BackoffOptions {
  readonly initialMs: number
  readonly maxMs: number
  /** The factor between consecutive delays. */
  readonly factor: number
  /** The random share of a delay, 0 to 1: 0.5 gives between half and all of it. */
  readonly jitter: number
  /** Uniform in [0, 1). */
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
