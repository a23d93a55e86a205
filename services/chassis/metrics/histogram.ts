/**
 * A distribution of durations. The width of a bucket is at most 1/32 of its lower bound, so that memory and
 * the cost of a record are constant, and every reader (a statsd line, a Prometheus bucket, a percentile) has
 * an error of at most 3 %. Sum and count are exact.
 */
export interface Histogram {
  /**
   * Adds one duration in milliseconds. It allocates no memory and takes some nanoseconds. A value below a
   * microsecond or NaN counts as 0; a value above half an hour counts in the last bucket.
   */
  record(ms: number): void
  /** Adds the durations of another histogram: their counts by bucket, and their sum in milliseconds. */
  add(recorded: Iterable<readonly [bucket: number, count: number]>, recordedMs: number): void
}

/** The reader's view. `counts` has one number for each bucket, and changes while it is read. */
export interface HistogramReading {
  readonly counts: Float64Array
  count(): number
  sumMs(): number
}

const subBucketBits = 5
const subBuckets = 1 << subBucketBits
const maxMicroseconds = 2 ** 31 - 1
export const histogramBuckets = findBucket(maxMicroseconds) + 1

export function createHistogram(): Histogram & HistogramReading {
  const counts = new Float64Array(histogramBuckets)
  let count = 0
  let sumMs = 0
  return {
    counts,
    count: () => count,
    sumMs: () => sumMs,
    record(ms) {
      const valid = ms > 0 ? ms : 0
      const bucket = findBucket(Math.min(valid * 1000, maxMicroseconds) | 0)
      counts[bucket] = (counts[bucket] ?? 0) + 1
      count += 1
      sumMs += valid
    },
    add(recorded, recordedMs) {
      for (const [bucket, added] of recorded) {
        counts[bucket] = (counts[bucket] ?? 0) + added
        count += added
      }
      sumMs += recordedMs
    },
  }
}

/**
 * The first 32 buckets are one microsecond wide; after that, every power of two has 32 buckets of equal
 * width.
 */
function findBucket(microseconds: number): number {
  if (microseconds < subBuckets) return microseconds
  const shift = 31 - Math.clz32(microseconds) - subBucketBits
  return ((shift + 1) << subBucketBits) + ((microseconds >>> shift) & (subBuckets - 1))
}

/** Returns the lower (inclusive) and upper (exclusive) bound of a bucket, in milliseconds. */
export function bucketRangeMs(bucket: number): { readonly fromMs: number; readonly toMs: number } {
  const shift = Math.max(0, (bucket >>> subBucketBits) - 1)
  const from = bucket < subBuckets ? bucket : (subBuckets + (bucket & (subBuckets - 1))) * 2 ** shift
  return { fromMs: from / 1000, toMs: (from + 2 ** shift) / 1000 }
}

/**
 * Returns the value that represents all durations of a bucket, in milliseconds with four digits: it is not
 * more exact.
 */
export function bucketMiddleMs(bucket: number): number {
  const { fromMs, toMs } = bucketRangeMs(bucket)
  return Number(((fromMs + toMs) / 2).toPrecision(4))
}

/**
 * Returns how many durations are at most each of the bounds (milliseconds, ascending). A bucket that a bound
 * divides counts as above it.
 */
export function countsAtMost(counts: Float64Array, boundsMs: readonly number[]): readonly number[] {
  let bucket = 0
  let total = 0
  return boundsMs.map(boundMs => {
    // The tolerance covers the rounding of a scaled bound.
    while (bucket < counts.length && bucketRangeMs(bucket).toMs <= boundMs * (1 + 1e-9)) {
      total += counts[bucket] ?? 0
      bucket += 1
    }
    return total
  })
}

/**
 * Returns the bucket with the duration that the share `quantile` (0 to 1) of all durations does not exceed;
 * undefined if there are none.
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

/** Returns the middle of the bucket of `quantileBucket` in milliseconds; 0 if there are no durations. */
export function quantileMs(counts: Float64Array, quantile: number): number {
  const bucket = quantileBucket(counts, quantile)
  return bucket === undefined ? 0 : bucketMiddleMs(bucket)
}
