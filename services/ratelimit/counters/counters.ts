import { ExpectedError } from '@tollway/chassis/expected-error.ts'
import type { LimitCheck, LimitOutcome } from './admission/limit-check.ts'
import type { BucketShares } from './bucket-shares.ts'
import type { Reservations } from './reservations.ts'

/**
 * Counters of hits. The start of the time window is part of the key, so a counter only grows until it
 * expires. `testing/counters.contract.ts` tests that every backend behaves as documented here.
 */
export interface Counters {
  /**
   * Adds each hit to its counter and returns the counters' values right after, in the order of the batch.
   * Hits that are given back leave the counter even if the batch is over a limit.
   *
   * Each addition is atomic among all processes that share the backend. A key that occurs twice in a batch is
   * counted twice, in order. Adding 0 only reads: it neither creates a counter nor prolongs one. No hit is
   * ever added twice: a request without an answer is not sent again. A value beyond `maxCount` is reported as
   * `maxCount`.
   *
   * A backend within this process returns the values synchronously, which saves the caller a turn of the
   * event loop; any other backend returns a promise. `add` never throws. The promise rejects with a
   * `CountersError` when the backend fails or does not answer in time; any part of the batch may have been
   * counted then.
   */
  add(batch: readonly Hit[]): readonly number[] | Promise<readonly number[]>
  /**
   * Admits a call if all its limits admit it, in one atomic step among all processes that share the backend;
   * otherwise no limit counts its hits, except those with `countRejected`. Returns an outcome for each check,
   * in order. Undefined if the backend does not support it. Rejects with a `CountersError` as `add` does; the
   * call may have been counted then.
   */
  readonly admit?: Admit
  /** Undefined if the backend does not support them. */
  readonly reservations?: Reservations | undefined
  /**
   * Undefined if the backend does not support them.
   * @param keyPrefix the prefix of the keys that the login may use
   */
  openBucketShares?(keyPrefix: string): BucketShares | undefined
  /**
   * Looks for a reason why `admit` would fail although the backend answers, such as a command that the login
   * may not run. Resolves with the reason, or with the empty string if there is none or the backend does not
   * answer.
   * @param keyPrefix the prefix of the keys that the login may use
   * @param features the features that calls need, by the names of `features`
   */
  findObstacle?(keyPrefix: string, features: readonly string[]): Promise<string>
  /**
   * Opens a channel between all processes that share the backend. Left out, or undefined, if the backend has
   * no channels.
   */
  openChannel?(name: string, listener: ChannelListener): Channel | undefined
  /** False until the backend's first answer; always true for a backend within the process. */
  readonly healthy: boolean
  /** Why the backend is unhealthy, in a few words and without secrets; empty when it is healthy. */
  readonly problem: string
  onHealth(listener: (healthy: boolean) => void): void
  /** Closes the connections. Running and later calls of `add` are rejected. */
  close(): Promise<void>
}

/** Sends texts to all processes that have opened the channel, including this one. */
export interface Channel {
  /** Called when the channel is open, at first and after each interruption: earlier messages may be lost. */
  publish(messages: readonly string[]): void
}

export interface ChannelListener {
  onMessage(message: string): void
  /** Called when the channel is open, at first and after each interruption: earlier messages may be lost. */
  onGap(): void
}

type Admit = (checks: readonly LimitCheck[]) => readonly LimitOutcome[] | Promise<readonly LimitOutcome[]>

export interface Hit {
  /** The whole key, including the start of the window. */
  readonly key: string
  /**
   * An integer from -(2^53-1) to 2^53-1. A negative number gives hits back: the counter does not fall below
   * 0.
   */
  readonly hits: number
  /**
   * Whether negative hits may make the counter negative, which grants hits beyond the limit. True only when
   * an operator changes a counter. A counter in memcached does not fall below 0 even then.
   */
  readonly grants?: boolean
  /**
   * The seconds of the limit's unit: an integer, at least 1. The counter is kept for at least that long after
   * its first hit. The windows of two units may begin in the same second and then share a key: a hit with the
   * longer unit keeps the counter for that unit's seconds from then on.
   */
  readonly expirySeconds: number
  /** How many whole seconds longer the counter may be kept, so that not all expire at once. Defaults to 0. */
  readonly jitterSeconds?: number
  /** Read only by backends that stop counting over the limit (`stopWhenOver`). */
  readonly limit: number
  /** True for a limit per second, which may have a separate backend. */
  readonly perSecond?: boolean
  /** Whether the hits may come from a lease of the process. */
  readonly leased?: boolean
}

/** Returns a check of a fixed window that has the hit's counter. */
export function toFixedWindowCheck({ key, hits, limit, expirySeconds }: Hit): LimitCheck {
  const window = { burst: limit, windowTicks: 1, ticksPerSecond: 1, expirySeconds }
  return { ...window, key, algorithm: 'FixedWindow', hits, limit, shadow: false, countRejected: false }
}

export const closedText = 'the counters are closed'

/** The largest value that a counter reports. Every limit is below it. */
export const maxCount = Number.MAX_SAFE_INTEGER

/** The backend failed. Callers receive the message, so it contains no secret. */
export class CountersError extends ExpectedError {
  override readonly name: string = 'CountersError'
}
