/** How often values fell into fixed ranges. Its memory is the same whatever comes. */
export interface Histogram {
  /** A value that is no number is left out. */
  record(value: number): void
  /** How many values are at most each bound, and all of them at the end. */
  cumulative(): readonly number[]
  readonly sum: number
  readonly count: number
}

/** Upper bounds in milliseconds: from what nobody notices to what is no stream any more. */
export const boundsMs: readonly number[] = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000,
]

export function createHistogram(): Histogram {
  const counts = new Float64Array(boundsMs.length + 1)
  let sum = 0
  let count = 0
  return {
    record(value) {
      if (Number.isNaN(value)) return
      let bucket = 0
      while (bucket < boundsMs.length && value > (boundsMs[bucket] ?? 0)) bucket += 1
      counts[bucket] = (counts[bucket] ?? 0) + 1
      sum += value
      count += 1
    },
    cumulative() {
      let total = 0
      return Array.from(counts, inBucket => {
        total += inBucket
        return total
      })
    },
    get sum() {
      return sum
    },
    get count() {
      return count
    },
  }
}
