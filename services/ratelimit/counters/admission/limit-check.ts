/**
 * One of the limits that admit a call together. All limits count a call that every limit admits; only those with
 * `countRejected` count another one.
 */
export interface LimitCheck {
  /** The whole key. With `FixedWindow` it includes the start of the window, otherwise no time. */
  readonly key: string
  readonly algorithm: 'FixedWindow' | 'SlidingWindow' | 'TokenBucket'
  /**
   * The hits of the call, an integer from 0 to 2^53-1; 0 only checks whether one more would be admitted. An
   * operator grants hits by a negative number, and empties the state by `emptyingHits`: both are always
   * admitted.
   */
  readonly hits: number
  /** The hits that a window admits. */
  readonly limit: number
  /** The hits that a full token bucket admits; the other algorithms ignore it. */
  readonly burst: number
  /** The length of a window in ticks. The products with `limit` and `burst` are below 2^52. */
  readonly windowTicks: number
  /** 1, 1,000 or 1,000,000. */
  readonly ticksPerSecond: number
  /** How long the counter of a fixed window is kept, in whole seconds. */
  readonly expirySeconds: number
  /** Whether the limit is only tested: it rejects no call, but counts as if it did. */
  readonly shadow: boolean
  /** Whether the limit also counts the hits of calls that it or another limit rejects. */
  readonly countRejected: boolean
}

/** The hits that set the counted hits of a limit to 0, and fill a token bucket. */
export const emptyingHits = -Number.MAX_SAFE_INTEGER

export interface LimitOutcome {
  /** Whether the limit admits the call; another limit may reject it. */
  readonly admitted: boolean
  /** The hits that the limit would admit now, after this call; negative by the hits beyond the limit. */
  readonly remaining: number
  /**
   * The seconds until the limit would admit the same call if no other call came, with fractions; undefined if
   * it never would. 0 with `FixedWindow`, whose windows the caller knows.
   */
  readonly waitSeconds: number | undefined
  /** Unix time in microseconds at which a backend with a clock of its own decided. */
  readonly atMicros?: number
  /** Whether the local cache knew the rejection. */
  readonly fromLocalCache?: true
}

/** The state of one limit, computed for an instant. */
export interface LimitState {
  /** Returns whether the limit admits this number of hits, at least 1. */
  admits(hits: number): boolean
  /** Adds the hits; a negative number takes them back, or grants them. */
  add(hits: number): void
  /** Returns the most hits that can be added while all numbers are exact. */
  room(): number
  /** Sets the hits to 0. */
  empty(): void
  /** Returns the hits that would be admitted; negative by the hits beyond the limit. */
  remaining(): number
  /** Returns the ticks until the hits would be admitted; undefined if they never would be. */
  wait(hits: number): number | undefined
}

/**
 * Decides a call and counts it in the states. A call of 0 hits changes nothing.
 * Members with the same key, as of equal descriptors of one request, are counted one after the other.
 *
 * @param states the state of each check; one object for checks with the same key and limit
 */
export function admitAll(
  checks: readonly LimitCheck[],
  states: readonly LimitState[],
): readonly LimitOutcome[] {
  const admitted = checks.map(({ hits, countRejected }, index) => {
    const state = states[index] as LimitState
    const isAdmitted = hits < 0 || state.admits(hits === 0 ? 1 : hits)
    if (hits === emptyingHits) state.empty()
    else if (isAdmitted) state.add(hits)
    else if (countRejected) state.add(Math.min(hits, state.room()))
    return isAdmitted
  })
  const rejected = checks.some(({ shadow }, index) => !(shadow || admitted[index]))
  if (rejected) {
    for (const [index, { hits, countRejected }] of checks.entries()) {
      if (admitted[index] && !countRejected) states[index]?.add(-hits)
    }
  }
  return checks.map(({ hits, ticksPerSecond }, index) => {
    const state = states[index] as LimitState
    const wait = state.wait(Math.max(1, hits))
    return {
      admitted: admitted[index] === true,
      remaining: state.remaining(),
      waitSeconds: wait === undefined ? undefined : wait / ticksPerSecond,
    }
  })
}
