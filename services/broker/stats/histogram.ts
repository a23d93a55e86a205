/** Upper bounds in milliseconds, from an imperceptible delay to a broken stream. */
export const boundsMs: readonly number[] = [
  1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 30_000, 60_000,
]

/** Counts values in fixed buckets, in constant memory. */
export class Histogram {
  readonly #counts = new Float64Array(boundsMs.length + 1)
  #sum = 0
  #count = 0

  /** Ignores NaN. */
  record(value: number): void {
    if (Number.isNaN(value)) return
    let bucket = 0
    while (bucket < boundsMs.length && value > (boundsMs[bucket] ?? 0)) bucket += 1
    this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += value
    this.#count += 1
  }

  /** The number of values at or below each bound, then the number of all values. */
  cumulative(): readonly number[] {
    let total = 0
    return Array.from(this.#counts, inBucket => {
      total += inBucket
      return total
    })
  }

  get sum(): number {
    return this.#sum
  }

  get count(): number {
    return this.#count
  }
}
