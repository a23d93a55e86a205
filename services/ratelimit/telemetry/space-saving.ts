import { contentHash } from './content-hash.ts'

/** A counted key. The true count is between `count - error` and `count`. */
export interface CountedItem<T> {
  readonly item: T
  readonly count: number
  readonly error: number
}

/** A counter of one key. `next` is the index of the next counter in the same bucket of the hash table. */
interface Counter<T> {
  item: T
  count: number
  error: number
  low: number
  high: number
  next: number
}

const none = -1

/**
 * Counts the most frequent keys in fixed memory, by the Space-Saving algorithm (Metwally, Agrawal and El
 * Abbadi, 2005): a new key replaces the one with the lowest count, and takes over that count as its error.
 * Every key whose count is above `missingAtMost` is present. Keys with equal hashes are one key.
 *
 * An addition takes O(log capacity), and allocates nothing once there are `capacity` keys: the counters are a
 * heap with the lowest count first, and a hash table with chaining finds them by key. A class, because V8
 * accesses its fields directly.
 */
export class SpaceSaving<T> {
  readonly #capacity: number
  readonly #counters: Counter<T>[] = []
  readonly #buckets: Int32Array
  /** The indexes of the counters, as a binary heap with the lowest count first. */
  readonly #heap: Int32Array
  readonly #positions: Int32Array

  constructor(capacity: number) {
    this.#capacity = capacity
    this.#buckets = new Int32Array(2 ** Math.ceil(Math.log2(capacity) + 1)).fill(none)
    this.#heap = new Int32Array(capacity)
    this.#positions = new Int32Array(capacity)
  }

  /** Adds hits to the key whose hash is in `contentHash`. If the key is new, `item` represents it. */
  add(hits: number, item: T): void {
    const { low, high } = contentHash
    const found = this.#find(low, high)
    const counter = this.#counters[found]
    if (counter !== undefined) {
      counter.count += hits
      this.#sink(this.#positions[found] as number)
    } else if (this.#counters.length < this.#capacity) this.#append(hits, item, low, high)
    else this.#replaceLowest(hits, item, low, high)
  }

  /** Returns the counted keys, the highest count first. */
  top(): readonly CountedItem<T>[] {
    return this.#counters
      .map(({ item, count, error }) => ({ item, count, error }))
      .sort((a, b) => b.count - a.count)
  }

  /** Returns the highest count that a key can have that is not among the counted ones. */
  missingAtMost(): number {
    return this.#counters.length < this.#capacity ? 0 : this.#countAt(0)
  }

  #find(low: number, high: number): number {
    let index = this.#buckets[this.#findBucket(low)] as number
    while (index !== none) {
      const counter = this.#counters[index] as Counter<T>
      if (counter.low === low && counter.high === high) return index
      index = counter.next
    }
    return none
  }

  #append(hits: number, item: T, low: number, high: number): void {
    const index = this.#counters.length
    this.#counters.push({ item, count: hits, error: 0, low, high, next: this.#link(low, index) })
    this.#heap[index] = index
    this.#positions[index] = index
    this.#rise(index)
  }

  #replaceLowest(hits: number, item: T, low: number, high: number): void {
    const index = this.#heap[0] as number
    const counter = this.#counters[index] as Counter<T>
    this.#unlink(index, counter)
    counter.item = item
    counter.error = counter.count
    counter.count += hits
    counter.low = low
    counter.high = high
    counter.next = this.#link(low, index)
    this.#sink(0)
  }

  #findBucket(low: number): number {
    return (low ^ (low >>> 15)) & (this.#buckets.length - 1)
  }

  /** Puts the counter first in its bucket, and returns the index of the counter that was first. */
  #link(low: number, index: number): number {
    const bucket = this.#findBucket(low)
    const next = this.#buckets[bucket] as number
    this.#buckets[bucket] = index
    return next
  }

  #unlink(index: number, { low, next }: Counter<T>): void {
    const bucket = this.#findBucket(low)
    const first = this.#buckets[bucket] as number
    if (first === index) {
      this.#buckets[bucket] = next
      return
    }
    let before = this.#counters[first] as Counter<T>
    while (before.next !== index) before = this.#counters[before.next] as Counter<T>
    before.next = next
  }

  #countAt(position: number): number {
    return this.#counters[this.#heap[position] as number]?.count ?? Number.POSITIVE_INFINITY
  }

  #sink(from: number): void {
    let position = from
    const { length } = this.#counters
    for (;;) {
      const left = 2 * position + 1
      if (left >= length) return
      const lower = left + 1 < length && this.#countAt(left + 1) < this.#countAt(left) ? left + 1 : left
      if (this.#countAt(position) <= this.#countAt(lower)) return
      this.#swap(position, lower)
      position = lower
    }
  }

  #rise(from: number): void {
    let position = from
    while (position > 0) {
      const parent = (position - 1) >> 1
      if (this.#countAt(parent) <= this.#countAt(position)) return
      this.#swap(position, parent)
      position = parent
    }
  }

  #swap(one: number, other: number): void {
    const [first, second] = [this.#heap[one] as number, this.#heap[other] as number]
    this.#heap[one] = second
    this.#heap[other] = first
    this.#positions[second] = one
    this.#positions[first] = other
  }
}
