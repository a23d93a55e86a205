import type { ShareHolder, ShareReport } from '../shares/shares.ts'

/**
 * Divides the limits of buckets among processes that share the counters, as `Shares` does. A member of a bucket
 * is a process, or a proxy whose process has stopped. `testing/bucket-shares.contract.ts` tests both
 * implementations.
 *
 * Each method is one atomic step among all processes. It rejects with a `CountersError` if the counters fail or
 * do not answer in time; it may have had its effect then. A backend that has lost its data grants nothing
 * beyond what members hold for one time to live: all earlier grants have expired then. So does one that has
 * never been used.
 */
export interface BucketShares {
  /** Reports, and returns what the member may use from the call on, for the time to live. */
  renew(renewal: BucketRenewal): number | Promise<number>
  /**
   * Lets another member go on with what a member may use, up to an amount. The first member must have stopped to
   * use it. Returns how much of what was granted the other has got from it since the last renewal of the other.
   */
  move(bucket: string, from: string, to: string, amount: number): number | Promise<number>
  /** Forgets a member that has stopped to use its grant. */
  leave(bucket: string, member: string): undefined | Promise<undefined>
  /** Returns the members of a bucket whose grants have not expired. */
  read(bucket: string): readonly ShareHolder[] | Promise<readonly ShareHolder[]>
  /** Returns for how long the backend still learns, by its last answers to renewals; 0 if it does not. */
  learningMs(): number
}

export interface BucketRenewal {
  /** Names the bucket among all buckets that share the counters. */
  readonly bucket: string
  readonly member: string
  /** What the limit of the bucket has for all members. */
  readonly capacity: number
  readonly report: ShareReport
}

/** A grant expires after this time. It must be the same in all processes. */
export const bucketGrantMs = 20_000

/** At most this many processes share a bucket. */
export const maxBucketMembers = 1_000
