import { bucketRangeMs, createHistogram, quantileBucket } from '@tollway/chassis/metrics/histogram.ts'

/** A distribution of durations, with the longest one. */
export class LatencyHistogram {
  readonly #durations = createHistogram()
  #maxMs = 0

  record(ms: number): void {
    this.#durations.record(ms)
    this.#maxMs = Math.max(this.#maxMs, ms)
  }

  /** Returns the duration that this share of the records does not exceed, at most 5 % too long, or 0. */
  quantile(share: number): number {
    const bucket = quantileBucket(this.#durations.counts, share)
    return bucket === undefined ? 0 : Math.min(bucketRangeMs(bucket).toMs, this.#maxMs)
  }

  get maxMs(): number {
    return this.#maxMs
  }
}
