interface SampledItem<T> {
  readonly item: T
  readonly order: number
}

/**
 * A uniform sample of a stream of unknown length (Vitter's algorithm R): each offered item is in the sample
 * with the same probability. An item that does not enter the sample costs one random number and no
 * allocation.
 */
export class Sample<T> {
  readonly #capacity: number
  readonly #random: () => number
  #kept: SampledItem<T>[] = []
  #offered = 0

  /** @param random returns random numbers, uniform in [0, 1) */
  constructor(capacity: number, random: () => number) {
    this.#capacity = capacity
    this.#random = random
  }

  /** Counts an item. Returns its slot, for `put`, if it enters the sample. */
  offer(): number | undefined {
    this.#offered += 1
    if (this.#offered <= this.#capacity) return this.#offered - 1
    const slot = Math.floor(this.#random() * this.#offered)
    return slot < this.#capacity ? slot : undefined
  }

  /** Stores the item that was offered last in the slot that `offer` returned. */
  put(slot: number, item: T): void {
    this.#kept[slot] = { item, order: this.#offered }
  }

  /**
   * Returns at most `count` items of the sample in the order of their offers, and the number of all other
   * offered items. Starts a new sample.
   */
  take(count: number): { readonly items: readonly T[]; readonly skipped: number } {
    const kept = this.#kept
    const size = Math.min(count, kept.length)
    for (let index = 0; index < size; index++) {
      const other = index + Math.floor(this.#random() * (kept.length - index))
      const [one, two] = [kept[index], kept[other]]
      if (one === undefined || two === undefined) continue
      kept[index] = two
      kept[other] = one
    }
    const taken = kept.slice(0, size).sort((one, other) => one.order - other.order)
    const skipped = this.#offered - size
    this.#kept = []
    this.#offered = 0
    return { items: taken.map(({ item }) => item), skipped }
  }
}
