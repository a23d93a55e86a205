/** Counts values in buckets with fixed bounds, in constant memory. */
export class BoundedHistogram {
  /** Inclusive upper bounds, ascending. Higher values are in `count` and `sum` only. */
  readonly bounds: readonly number[]
  readonly #counts: Float64Array
  #sum = 0
  #count = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.#counts = new Float64Array(bounds.length)
  }

  /** Adds a value; NaN is ignored. */
  record(value: number): void {
    if (Number.isNaN(value)) return
    const bucket = this.bounds.findIndex(bound => value <= bound)
    if (bucket !== -1) this.#counts[bucket] = (this.#counts[bucket] ?? 0) + 1
    this.#sum += value
    this.#count += 1
  }

  /** Returns the number of values at or below each bound. */
  atMost(): readonly number[] {
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
