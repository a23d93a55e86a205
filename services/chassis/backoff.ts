/** Waits between tries: they grow, they are spread, and they begin anew after a success. */
export interface Backoff {
  /** How long to wait before the next try. */
  nextMs(): number
  /** The last try succeeded. */
  reset(): void
}

export interface BackoffOptions {
  readonly initialMs: number
  readonly maxMs: number
  /** The next wait is the last one times this. */
  readonly factor: number
  /** The share of a wait that is drawn by chance, 0 to 1: 0.5 gives between half and all of it. */
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
