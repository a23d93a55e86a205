const subBucketBits = 5
const subBuckets = 1 << subBucketBits
const maxMicroseconds = 2 ** 31 - 1
export const histogramBuckets = findBucket(maxMicroseconds) + 1

/**
 * A distribution of durations in buckets of fixed bounds, in constant memory. A bucket is 1 µs wide, or at
 * most 1/32 of its lower bound: a duration read from the buckets is at most 3 % or 1 µs wrong. The sum and
 * the count are exact.
 */
export class Histogram {
  /** The number of durations in each bucket; the array changes with each record. */
  readonly counts = new Float64Array(histogramBuckets)
  #count = 0
  #sumMs = 0

  get count(): number {
    return this.#count
  }

  get sumMs(): number {
    return this.#sumMs
  }

  /**
   * Adds one duration in milliseconds, without allocating memory. A negative value and NaN count as 0; a
   * value above 35 minutes counts in the last bucket.
   */
  record(ms: number): void {
    const valid = ms > 0 ? ms : 0
    const bucket = findBucket(Math.min(valid * 1000, maxMicroseconds) | 0)
    this.counts[bucket] = (this.counts[bucket] ?? 0) + 1
    this.#count += 1
    this.#sumMs += valid
  }

  /** Adds the durations of another histogram: the count of each bucket, and their sum in milliseconds. */
  add(recorded: Iterable<readonly [bucket: number, count: number]>, recordedMs: number): void {
    for (const [bucket, added] of recorded) {
      this.counts[bucket] = (this.counts[bucket] ?? 0) + added
      this.#count += added
    }
    this.#sumMs += recordedMs
  }
}

/** The first 32 buckets are 1 µs wide; then every power of two has 32 buckets of equal width. */
function findBucket(microseconds: number): number {
  if (microseconds < subBuckets) return microseconds
  const shift = 31 - Math.clz32(microseconds) - subBucketBits
  return ((shift + 1) << subBucketBits) + ((microseconds >>> shift) & (subBuckets - 1))
}

/** Returns the bounds of a bucket: the lower bound is inclusive, the upper one exclusive. */
export function bucketRangeMs(bucket: number): { readonly fromMs: number; readonly toMs: number } {
  const shift = Math.max(0, (bucket >>> subBucketBits) - 1)
  const from = bucket < subBuckets ? bucket : (subBuckets + (bucket & (subBuckets - 1))) * 2 ** shift
  return { fromMs: from / 1000, toMs: (from + 2 ** shift) / 1000 }
}

/**
 * Returns the middle of a bucket, which stands for all its durations, rounded to four digits: more would show
 * an accuracy that buckets lack.
 */
export function bucketMiddleMs(bucket: number): number {
  const { fromMs, toMs } = bucketRangeMs(bucket)
  return Number(((fromMs + toMs) / 2).toPrecision(4))
}

/**
 * Returns the number of durations at or below each bound (ascending). A bucket that contains a bound counts
 * as above it.
 */
export function countsAtMost(counts: Float64Array, boundsMs: readonly number[]): readonly number[] {
  let bucket = 0
  let total = 0
  return boundsMs.map(boundMs => {
    // The tolerance is for rounding errors in a bound that was computed from another unit.
    while (bucket < counts.length && bucketRangeMs(bucket).toMs <= boundMs * (1 + 1e-9)) {
      total += counts[bucket] ?? 0
      bucket += 1
    }
    return total
  })
}

/**
 * Returns the first bucket such that it and the lower ones have the share `quantile` (0 to 1) of all
 * durations; undefined without durations.
 */
export function quantileBucket(counts: Float64Array, quantile: number): number | undefined {
  const all = counts.reduce((sum, count) => sum + count, 0)
  let left = quantile * all
  for (const [bucket, count] of counts.entries()) {
    left -= count
    if (count > 0 && left <= 0) return bucket
  }
  return undefined
}

/** Returns the middle of the bucket with the quantile; 0 without durations. */
export function quantileMs(counts: Float64Array, quantile: number): number {
  const bucket = quantileBucket(counts, quantile)
  return bucket === undefined ? 0 : bucketMiddleMs(bucket)
}
