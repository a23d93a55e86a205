import type { Clock } from '@tollway/chassis/clock.ts'
import { type ShareHolder, Shares } from '../shares/shares.ts'
import { type BucketRenewal, type BucketShares, bucketGrantMs, maxBucketMembers } from './bucket-shares.ts'

/** Buckets beyond this number are granted nothing. */
const maxBuckets = 100_000

/** Divides the limits of buckets in this process, which has no others to share them with but its past. */
export class MemoryBucketShares implements BucketShares {
  readonly #clock: Clock
  readonly #maxBuckets: number
  readonly #learnUntilMs: number
  /** In the order of their last renewals, so that the first one is the first to be empty. */
  readonly #buckets = new Map<string, Shares>()

  constructor(clock: Clock, max = maxBuckets) {
    this.#clock = clock
    this.#maxBuckets = max
    this.#learnUntilMs = clock.monotonicMs() + bucketGrantMs
  }

  renew({ bucket, member, capacity, report }: BucketRenewal): number {
    const nowMs = this.#clock.monotonicMs()
    const shares = this.#buckets.get(bucket) ?? this.#create(nowMs)
    if (shares === undefined) return 0
    this.#buckets.delete(bucket)
    this.#buckets.set(bucket, shares)
    shares.capacity = capacity
    return shares.report(member, report, nowMs, bucketGrantMs)
  }

  move(bucket: string, from: string, to: string, amount: number): number {
    return this.#buckets.get(bucket)?.move(from, to, amount, this.#clock.monotonicMs()) ?? 0
  }

  leave(bucket: string, member: string): undefined {
    const shares = this.#buckets.get(bucket)
    shares?.leave(member)
    if (shares?.membersAt(this.#clock.monotonicMs()).size === 0) this.#buckets.delete(bucket)
  }

  read(bucket: string): readonly ShareHolder[] {
    return this.#buckets.get(bucket)?.holdersAt(this.#clock.monotonicMs()) ?? []
  }

  learningMs(): number {
    return Math.max(0, this.#learnUntilMs - this.#clock.monotonicMs())
  }

  #create(nowMs: number): Shares | undefined {
    this.#forgetFirstIfEmpty(nowMs)
    if (this.#buckets.size >= this.#maxBuckets) return undefined
    return new Shares(0, { learnUntilMs: this.#learnUntilMs, maxMembers: maxBucketMembers })
  }

  /** One for each new bucket is enough, and does not scan all of them when there are too many. */
  #forgetFirstIfEmpty(nowMs: number): void {
    for (const [bucket, shares] of this.#buckets) {
      if (shares.membersAt(nowMs).size === 0) this.#buckets.delete(bucket)
      return
    }
  }
}
