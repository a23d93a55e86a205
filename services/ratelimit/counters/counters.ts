import { ExpectedError } from '@tollway/chassis/expected-error.ts'

/**
 * Counters of hits, each under a key that names its window, so that a counter only ever grows and then
 * expires. `counters-contract.ts` holds every backend to what is said here.
 */
export interface Counters {
  /**
   * Adds each hit to its counter and answers the counters' values right after, in the order of the batch.
   *
   * Each addition is atomic among all processes that share the backend. A key that stands twice in a batch
   * counts one after the other. Adding 0 only looks: it creates no counter and prolongs none. Nothing is ever
   * added twice: what was sent and not answered is not sent again. A value beyond `maxCount` is answered as
   * `maxCount`.
   *
   * A backend within this process answers the values themselves, so that nobody waits a turn for them; any
   * other one a promise. `add` never throws. The promise rejects with a `CountersError` when the backend
   * failed or did not answer in time, and then any part of the batch may have been counted.
   */
  add(batch: readonly Hit[]): readonly number[] | Promise<readonly number[]>
  /** Whether the backend has answered, and still does. Starts false, except for one that cannot be away. */
  readonly healthy: boolean
  /** Why it is not healthy, in a few words and without any secret; empty when it is. */
  readonly problem: string
  /** Called after each change of `healthy`. */
  onHealth(listener: (healthy: boolean) => void): void
  /** Ends the connections. Calls of `add` that run are rejected, and so are later ones of any backend. */
  close(): Promise<void>
}

export interface Hit {
  /** The whole key, the window's start included. */
  readonly key: string
  /** Whole, 0 to 2^53-1. */
  readonly hits: number
  /**
   * The unit's seconds: whole, at least 1. The counter is kept at least that long from its first hit on. When a
   * later hit has a longer unit, the counter is kept for that one's seconds from then on: the windows of two units
   * may begin in the same second, and then they share a key.
   */
  readonly expirySeconds: number
  /**
   * How much longer the backend may keep the counter, in whole seconds, so that counters do not all expire at once.
   * 0 when left out.
   */
  readonly jitterSeconds?: number
  /**
   * The most that the counter may reach before it is over its limit. Only backends that stop counting when
   * over the limit look at it.
   */
  readonly limit: number
  /** Counted by the backend for limits per second, where there is one of its own. */
  readonly perSecond?: boolean
}

/** The largest value that a counter tells. Every limit is below it. */
export const maxCount = Number.MAX_SAFE_INTEGER

/** The backend failed. The message reaches the callers, as the reference's does, so it holds no secret. */
export class CountersError extends ExpectedError {
  override readonly name = 'CountersError'
}
