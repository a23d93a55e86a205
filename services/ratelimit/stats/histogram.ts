/**
 * How long things took. Durations are counted in buckets whose width is at most 1/32 of where they begin, so
 * that memory and the cost of a record are the same whatever comes, and every reader (a statsd line, a
 * Prometheus bucket, a percentile) is at most 3 % off. Sum and count are exact.
 */
export interface Histogram {
  /**
   * Adds one duration in milliseconds. It allocates nothing and costs some nanoseconds. What is below a
   * microsecond, or no number, counts as 0; what is above half an hour counts in the last bucket.
   */
  record(ms: number): void
  /** Adds what another histogram recorded: how many durations by bucket, and their sum in milliseconds. */
  add(recorded: Iterable<readonly [bucket: number, count: number]>, recordedMs: number): void
}

/** What a sink reads. `counts` has one number for each bucket, and changes under the reader's eyes. */
export interface HistogramReading {
  readonly counts: Float64Array
  count(): number
  sumMs(): number
}

const subBucketBits = 5
const subBuckets = 1 << subBucketBits
const maxMicroseconds = 2 ** 31 - 1
export const histogramBuckets = bucketOf(maxMicroseconds) + 1

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
      const bucket = bucketOf(Math.min(valid * 1000, maxMicroseconds) | 0)
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

/** The first 32 buckets hold one microsecond each; after that, every power of two has 32 of one width. */
function bucketOf(microseconds: number): number {
  if (microseconds < subBuckets) return microseconds
  const shift = 31 - Math.clz32(microseconds) - subBucketBits
  return ((shift + 1) << subBucketBits) + ((microseconds >>> shift) & (subBuckets - 1))
}

/** Where a bucket begins (included) and ends (not included), in milliseconds. */
export function bucketRangeMs(bucket: number): { readonly fromMs: number; readonly toMs: number } {
  const shift = Math.max(0, (bucket >>> subBucketBits) - 1)
  const from = bucket < subBuckets ? bucket : (subBuckets + (bucket & (subBuckets - 1))) * 2 ** shift
  return { fromMs: from / 1000, toMs: (from + 2 ** shift) / 1000 }
}

/** What stands for every duration of a bucket, in milliseconds with four digits: it is no more exact. */
export function bucketMiddleMs(bucket: number): number {
  const { fromMs, toMs } = bucketRangeMs(bucket)
  return Number(((fromMs + toMs) / 2).toPrecision(4))
}

/**
 * How many durations are at most each of the bounds (milliseconds, ascending). A bucket that a bound divides
 * counts as above it.
 */
export function countsAtMost(counts: Float64Array, boundsMs: readonly number[]): readonly number[] {
  let bucket = 0
  let total = 0
  return boundsMs.map(boundMs => {
    // The smallest allowance takes the rounding of a bound that was scaled.
    while (bucket < counts.length && bucketRangeMs(bucket).toMs <= boundMs * (1 + 1e-9)) {
      total += counts[bucket] ?? 0
      bucket += 1
    }
    return total
  })
}

/** The duration in milliseconds that the share `quantile` (0 to 1) of all does not exceed; 0 of none. */
export function quantileMs(counts: Float64Array, quantile: number): number {
  const all = counts.reduce((sum, count) => sum + count, 0)
  let left = quantile * all
  for (const [bucket, count] of counts.entries()) {
    left -= count
    if (count > 0 && left <= 0) return bucketMiddleMs(bucket)
  }
  return 0
}
