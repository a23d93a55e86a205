const smallestMs = 0.01
const ratio = 1.05
const bucketCount = 400

/** Counts durations in buckets, each 5 % longer than the one before, so that its memory does not grow. */
export class LatencyHistogram {
  readonly #counts = new Float64Array(bucketCount)
  #total = 0
  #maxMs = 0

  record(ms: number): void {
    const bucket = Math.ceil(Math.log(Math.max(ms, smallestMs) / smallestMs) / Math.log(ratio))
    const index = Math.min(bucket, bucketCount - 1)
    this.#counts[index] = (this.#counts[index] ?? 0) + 1
    this.#total += 1
    this.#maxMs = Math.max(this.#maxMs, ms)
  }

  /** Returns the duration that this share of the records does not exceed, at most 5 % too long, or 0. */
  quantile(share: number): number {
    let left = Math.ceil(share * this.#total)
    if (left === 0) return 0
    const index = this.#counts.findIndex(count => {
      left -= count
      return left <= 0
    })
    return Math.min(smallestMs * ratio ** index, this.#maxMs)
  }

  get maxMs(): number {
    return this.#maxMs
  }
}
