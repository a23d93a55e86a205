/**
 * A distribution of durations in buckets of fixed bounds, so that memory and the cost of a record are
 * constant. The width of a bucket is 1 µs, or at most 1/32 of its lower bound: a duration that is read from
 * the buckets is at most 3 % or 1 µs wrong. Sum and count are exact.
 */
export interface Histogram {
  /**
   * Adds one duration in milliseconds, without allocating memory. A duration of less than a microsecond is
   * counted in the first bucket, one above 35 minutes in the last. A negative value and NaN count as 0.
   */
  record(ms: number): void
  /**
   * Adds the durations of another histogram: the count of each bucket, and the sum of the durations in
   * milliseconds.
   */
  add(recorded: Iterable<readonly [bucket: number, count: number]>, recordedMs: number): void
}

/**
 * What a reader sees of a histogram. `counts` has one number for each bucket, and changes with each record.
 */
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
 * Returns the bucket of a duration. The first 32 buckets are one microsecond wide; after that, every power of
 * two has 32 buckets of equal width.
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
 * Returns the middle of a bucket, which stands for all durations in it, in milliseconds rounded to four
 * digits. More digits would show an accuracy that the buckets do not have.
 */
export function bucketMiddleMs(bucket: number): number {
  const { fromMs, toMs } = bucketRangeMs(bucket)
  return Number(((fromMs + toMs) / 2).toPrecision(4))
}

/**
 * Returns, for each of the bounds (milliseconds, ascending), the number of durations at or below it. A bucket
 * that contains a bound counts as above the bound.
 */
export function countsAtMost(counts: Float64Array, boundsMs: readonly number[]): readonly number[] {
  let bucket = 0
  let total = 0
  return boundsMs.map(boundMs => {
    // The tolerance covers rounding errors in a bound that was computed from another unit.
    while (bucket < counts.length && bucketRangeMs(bucket).toMs <= boundMs * (1 + 1e-9)) {
      total += counts[bucket] ?? 0
      bucket += 1
    }
    return total
  })
}

/**
 * Returns the bucket with the quantile: the share `quantile` (0 to 1) of all durations is in this bucket or
 * below. Returns undefined if there are no durations.
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

/** Returns the quantile in milliseconds, as the middle of its bucket; 0 if there are no durations. */
export function quantileMs(counts: Float64Array, quantile: number): number {
  const bucket = quantileBucket(counts, quantile)
  return bucket === undefined ? 0 : bucketMiddleMs(bucket)
}
