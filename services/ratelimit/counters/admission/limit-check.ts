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
   * hold of their own, and give back what would end first. With `renews`, what is left of the hold lasts for so
   * many ticks from now, whatever the hits are.
   */
  readonly hold?: { readonly name: string; readonly ticks: number; readonly renews?: true }
  /**
   * The hits become, or give back, a lease of the caller, which admits calls from it. Only for limits with
   * `leased`. All checks of a call have one, or none has.
   */
  readonly lease?: LeaseTerms
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
  /** How long the counter of a fixed window is kept, in whole seconds; see `Hit.expirySeconds`. */
  readonly expirySeconds: number
  /** In shadow mode the limit rejects no call. Its own outcome is the same as without shadow mode. */
  readonly shadow: boolean
  /** Whether the limit counts the hits of every call, also of a call that this or another limit rejects. */
  readonly countRejected: boolean
  /** Whether callers may have leases of the limit: a token bucket then does not refill what is leased. */
  readonly leased?: boolean
  /** The limit as a bucket of which the process may have a share; left out for a limit without `delivery: Quota`. */
  readonly quota?: {
    readonly name: string
    readonly tokens: number
    readonly intervalSeconds: number
    readonly maxTokens: number
  }
}

/** Positive hits take a lease of as many hits as are left, up to this number; other hits end the lease. */
export interface LeaseTerms {
  /** Fewer hits than this are not taken: the limit rejects the lease. */
  readonly atLeast: number
  /** The hits that the caller still has of its lease so far. They become part of the new lease. */
  readonly holds: number
  /** The hits of the lease so far, which ends with this call; 0 for none. */
  readonly replaced: number
  /** `LimitOutcome.atMicros` of the lease so far. */
  readonly sinceMicros: number
}

/** A lease ends at the latest this long after it was taken. */
export const leaseMs = 1_000

/** A value for the `hits` of a check that grants: sets the counted hits to 0, which fills a token bucket. */
export const emptyingHits = -Number.MAX_SAFE_INTEGER

export interface LimitOutcome {
  /** Whether this limit admits the call, which another limit may still reject. */
  readonly admitted: boolean
  /**
   * The hits that the limit would admit after this call; negative if more hits than the limit are counted.
   */
  readonly remaining: number
  /** The hits that a lease got; 0 if another limit rejects it. */
  readonly granted?: number
  /**
   * The seconds, with fractions, until the limit would admit the same call if no other call came; undefined
   * if it never would. 0 with the counter of a `FixedWindow`: the caller knows when a window ends.
   */
  readonly waitSeconds: number | undefined
  /**
   * The Unix time in microseconds at which the call was decided, if the backend uses a clock of its own, and
   * always for a lease.
   */
  readonly atMicros?: number
  /** How many hits a full bucket has, if a share of the limit has decided and not its counter. */
  readonly shareSize?: number
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
  /** Returns how many hits beyond the limit can be added at most. */
  room(): number
  empty(): void
  /** Returns the hits that would be admitted; negative if more hits than the limit are counted. */
  remaining(): number
  /** Returns the ticks until this many hits would be admitted; undefined if they never would be. */
  wait(hits: number): number | undefined
  /**
   * Counts this many hits as leased, instead of those of the lease that it replaces. Returns whether that one
   * has lasted. Left out if it makes no difference to the limit.
   */
  lease?(hits: number, terms: Pick<LeaseTerms, 'replaced' | 'sinceMicros'>): boolean
}

/**
 * Decides a call and counts its hits in the states. A call of 0 hits changes nothing. Hits that a call gives
 * back stay given back if another limit rejects the call. Checks with the same key, such as those of equal
 * descriptors of one request, are counted one after the other. Leases are admitted in the same way, with as
 * many hits as are left.
 *
 * @param states the state of each check; one object for checks with the same key and limit
 */
export function admitAll(
  checks: readonly LimitCheck[],
  states: readonly LimitState[],
): readonly LimitOutcome[] {
  const counted = checks.map(() => 0)
  const admitted = checks.map(({ hits, countRejected, grants, lease }, index) => {
    const state = states[index] as LimitState
    if (lease !== undefined && hits <= 0) {
      const hasLasted = state.lease?.(0, lease) ?? true
      if (hasLasted) state.giveBack(-hits)
      return true
    }
    const granted = lease === undefined ? hits : Math.min(hits, Math.max(0, state.remaining()))
    const isAdmitted =
      lease === undefined ? hits < 0 || state.admits(hits === 0 ? 1 : hits) : granted >= lease.atLeast
    if (hits < 0 && !grants) state.giveBack(-hits)
    else if (hits === emptyingHits) state.empty()
    else if (isAdmitted) {
      state.add(granted)
      counted[index] = granted
    } else if (countRejected) state.add(Math.min(hits, state.room()))
    return isAdmitted
  })
  const rejected = checks.some(({ shadow }, index) => !(shadow || admitted[index]))
  for (const [index, { hits, countRejected, lease }] of checks.entries()) {
    const granted = counted[index] as number
    if (rejected && admitted[index] && hits > 0 && !countRejected) {
      if (granted > 0) states[index]?.undo(granted)
      counted[index] = 0
    } else if (lease !== undefined && hits > 0 && !rejected) {
      states[index]?.lease?.(granted + lease.holds, lease)
    }
  }
  return checks.map(({ hits, ticksPerSecond, lease }, index) => {
    const state = states[index] as LimitState
    const wait = state.wait(Math.max(1, lease === undefined ? hits : lease.atLeast))
    return {
      admitted: admitted[index] === true,
      remaining: state.remaining(),
      ...(lease !== undefined && { granted: counted[index] as number }),
      waitSeconds: wait === undefined ? undefined : wait / ticksPerSecond,
    }
  })
}
