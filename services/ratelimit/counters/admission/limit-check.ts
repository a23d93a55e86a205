export type Algorithm = 'FixedWindow' | 'SlidingWindow' | 'TokenBucket' | 'Concurrency'

/**
 * One of the limits that admit a call together. If none of them rejects the call, every limit that admits it
 * counts its hits. If one rejects it, only limits with `countRejected` count them.
 */
export interface LimitCheck {
  /** The whole key. With `FixedWindow` it includes the start of the window, otherwise no time. */
  readonly key: string
  readonly algorithm: Algorithm
  /**
   * The hits of the call, an integer from -(2^53-1) to 2^53-1; 0 only checks whether one more hit would be
   * admitted. A negative number gives hits back, which is always admitted: those of the current window, what
   * the bucket owes, or what is held, but not more.
   */
  readonly hits: number
  /**
   * Whether negative hits also grant hits that were never counted, and `emptyingHits` empties the state. True
   * only when an operator changes a counter.
   */
  readonly grants?: boolean
  /**
   * The hold of `Concurrency` that these hits take, for so many ticks, or give back. By default they take a
   * hold of their own, and give back what would end first.
   */
  readonly hold?: { readonly name: string; readonly ticks: number }
  /**
   * The hits that one window admits; with `TokenBucket`, the hits that are refilled in a window; with
   * `Concurrency`, the hits that are held at the same time.
   */
  readonly limit: number
  /** The hits that a full token bucket admits; only `TokenBucket` uses it. */
  readonly burst: number
  /** The length of a window in ticks, or the lease of `Concurrency`. Its products with `limit` and with `burst` are below 2^52. */
  readonly windowTicks: number
  /** The number of ticks in a second: 1, 1,000 or 1,000,000. */
  readonly ticksPerSecond: number
  /** How long the counter of a fixed window is kept, in whole seconds. */
  readonly expirySeconds: number
  /** In shadow mode the limit rejects no call. Its own outcome is the same as without shadow mode. */
  readonly shadow: boolean
  /** Whether the limit counts the hits of every call, also of a call that this or another limit rejects. */
  readonly countRejected: boolean
}

/** A value for the `hits` of a check that grants: sets the counted hits to 0, which fills a token bucket. */
export const emptyingHits = -Number.MAX_SAFE_INTEGER

export interface LimitOutcome {
  /** Whether this limit admits the call, which another limit may still reject. */
  readonly admitted: boolean
  /**
   * The hits that the limit would admit after this call; negative if more hits than the limit are counted.
   */
  readonly remaining: number
  /**
   * The seconds, with fractions, until the limit would admit the same call if no other call came; undefined
   * if it never would. 0 with `FixedWindow`: the caller knows when a window ends.
   */
  readonly waitSeconds: number | undefined
  /** The Unix time in microseconds at which the call was decided, if the backend uses a clock of its own. */
  readonly atMicros?: number
  /** Whether the local cache rejected the call, without the backend. */
  readonly fromLocalCache?: true
}

/** The state of one limit at one instant. */
export interface LimitState {
  /** Returns whether the limit admits this many hits, which are at least 1. */
  admits(hits: number): boolean
  /** Counts the hits. A negative number grants hits. */
  add(hits: number): void
  /** Takes back the hits that this call has counted last. */
  undo(hits: number): void
  /** Takes back at most this many hits of earlier calls. */
  giveBack(hits: number): void
  /** Returns how many hits can be added at most while all numbers remain exact. */
  room(): number
  empty(): void
  /** Returns the hits that would be admitted; negative if more hits than the limit are counted. */
  remaining(): number
  /** Returns the ticks until this many hits would be admitted; undefined if they never would be. */
  wait(hits: number): number | undefined
}

/**
 * Decides a call and counts its hits in the states. A call of 0 hits changes nothing. Hits that a call gives
 * back stay given back if another limit rejects the call. Checks with the same key, such as those of equal
 * descriptors of one request, are counted one after the other.
 *
 * @param states the state of each check; one object for checks with the same key and limit
 */
export function admitAll(
  checks: readonly LimitCheck[],
  states: readonly LimitState[],
): readonly LimitOutcome[] {
  const admitted = checks.map(({ hits, countRejected, grants }, index) => {
    const state = states[index] as LimitState
    const isAdmitted = hits < 0 || state.admits(hits === 0 ? 1 : hits)
    if (hits < 0 && !grants) state.giveBack(-hits)
    else if (hits === emptyingHits) state.empty()
    else if (isAdmitted) state.add(hits)
    else if (countRejected) state.add(Math.min(hits, state.room()))
    return isAdmitted
  })
  const rejected = checks.some(({ shadow }, index) => !(shadow || admitted[index]))
  if (rejected) {
    for (const [index, { hits, countRejected }] of checks.entries()) {
      if (admitted[index] && hits > 0 && !countRejected) states[index]?.undo(hits)
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
