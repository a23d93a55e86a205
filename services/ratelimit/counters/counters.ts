import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { LimitCheck, LimitOutcome } from './admission/limit-check.ts'

/**
 * Counters of hits. A key names its window, so a counter only grows and then expires.
 * `testing/counters.contract.ts` tests that every backend behaves as documented here.
 */
export interface Counters {
  /**
   * Adds each hit to its counter and returns the counters' values right after, in the order of the batch.
   *
   * Each addition is atomic among all processes that share the backend. A key that occurs twice in a batch is
   * counted twice, in order. Adding 0 only reads: it neither creates a counter nor prolongs one. No hit is
   * ever added twice: a request without an answer is not sent again. A value beyond `maxCount` is reported as
   * `maxCount`.
   *
   * A backend within this process returns the values themselves, which saves its callers a turn of the event
   * loop; any other one returns a promise. `add` never throws. The promise rejects with a `CountersError`
   * when the backend failed or did not answer in time; any part of the batch may have been counted then.
   */
  add(batch: readonly Hit[]): readonly number[] | Promise<readonly number[]>
  /**
   * Admits a call by all its limits or by none, in one atomic step among all processes that share the
   * backend. Returns an outcome for each check, in order. Undefined if the backend cannot do it. Rejects as
   * `add` does; the call may have been counted then.
   */
  readonly admit?: Admit
  /**
   * Finds out why `admit` would fail although the backend answers, such as a command that the login may not
   * run. Resolves with the empty string if there is no reason, or if the backend does not answer.
   *
   * @param keyPrefix the prefix of the keys that the login may use
   */
  findObstacle?(keyPrefix: string): Promise<string>
  /** Whether the backend answers. Starts false, except for a backend within the process. */
  readonly healthy: boolean
  /** Why the backend is unhealthy, in a few words and without secrets; empty when it is healthy. */
  readonly problem: string
  /** Called after each change of `healthy`. */
  onHealth(listener: (healthy: boolean) => void): void
  /** Closes the connections. Running and later calls of `add` are rejected. */
  close(): Promise<void>
}

type Admit = (checks: readonly LimitCheck[]) => readonly LimitOutcome[] | Promise<readonly LimitOutcome[]>

export interface Hit {
  /** The whole key, including the start of the window. */
  readonly key: string
  /**
   * An integer from -(2^53-1) to 2^53-1. Calls have no negative hits: an operator changes a counter by them.
   * A counter in memcached ends at 0, and every other one may become negative.
   */
  readonly hits: number
  /**
   * The seconds of the limit's unit: an integer, at least 1. The counter is kept for at least that long after
   * its first hit. A later hit with a longer unit keeps the counter for that unit's seconds from then on: the
   * windows of two units may begin in the same second, and then they share a key.
   */
  readonly expirySeconds: number
  /**
   * How much longer the backend may keep the counter, in whole seconds, so that counters do not all expire at
   * once. Defaults to 0.
   */
  readonly jitterSeconds?: number
  /**
   * The value above which the counter is over its limit. Only backends that stop counting when over the limit
   * read it.
   */
  readonly limit: number
  /** True for a limit per second, which may have a separate backend. */
  readonly perSecond?: boolean
}

/** The largest value that a counter reports. Every limit is below it. */
export const maxCount = Number.MAX_SAFE_INTEGER

/** The backend failed. Callers receive the message, as with the reference, so it contains no secret. */
export class CountersError extends ExpectedError {
  override readonly name = 'CountersError'
}
