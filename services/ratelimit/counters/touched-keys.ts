import { HashedTable } from './touched-keys/hashed-table.ts'
import { type Hash, KeyHash } from './touched-keys/key-hash.ts'

/**
 * The keys, window included, that this process has touched lately, and what it knows of each: one look-up a
 * hit answers every question. A key may be forgotten; then it counts as touched for the first time once more.
 *
 * A key is known by a hash of 64 bits with seeds of the process, not by its text: 100,000 keys take 2 to 4 MB
 * instead of 14, none of which the garbage collector visits. Two keys of one hash share what is known, so the
 * first increment of the second one may come without its expiry. That does not lose the expiry: each sender
 * compares the answer of the backend with the increment, finds that the counter was new, and sends the expiry
 * then, as it does for a counter that the backend has evicted.
 */
export interface TouchedKeys {
  /** What is known of the key; it is known from now on. */
  of(key: string): TouchedKey
  clear(): void
}

/** Whether the backend may drop the counter before its unit is over, unless a longer expiry is sent. */
export function needsExpiry(touched: TouchedKey, expirySeconds: number): boolean {
  return touched.expirySentSeconds < expirySeconds
}

export interface TouchedKey {
  /**
   * The expiry that was sent to the backend last, in seconds, jitter included; 0 while none was, or when the
   * backend refused it. The sender of an expiry sets it.
   */
  expirySentSeconds: number
  /**
   * Where its increment stands in the write that it went into last, beyond the end of every write when that is
   * not known; see `sumEqualKeys`.
   */
  place: number
}

/** About 8 MB when there are so many. */
export const defaultMaxTouchedKeys = 390_000

/** @param hash the hash by which keys are known; a test gives one in which keys collide */
export function createTouchedKeys(maxKeys: number, hash: Hash = new KeyHash()): TouchedKeys {
  const generations = new Generations(Math.max(1, Math.floor(maxKeys / 2)))
  return {
    of(key) {
      hash.of(key)
      return new HashedKey(generations, hash.low, hash.high)
    },
    clear: () => generations.clear(),
  }
}

/**
 * Two tables of half the size: when the newer one is full the older one is dropped whole, so that keys
 * in use stay and no key needs a place in an order of its own.
 */
class Generations {
  newer = new HashedTable()
  #older = new HashedTable()
  readonly #maxPerGeneration: number

  constructor(maxPerGeneration: number) {
    this.#maxPerGeneration = maxPerGeneration
  }

  /** Returns the slot of the key in the newer table, which has it from now on. */
  slotOf(low: number, high: number): number {
    const found = this.newer.find(low, high)
    if (found !== -1) return found
    if (this.newer.size >= this.#maxPerGeneration) {
      this.#older = this.newer
      this.newer = new HashedTable()
    }
    const older = this.#older.find(low, high)
    return this.newer.insert(low, high, older === -1 ? 0 : this.#older.expiryAt(older))
  }

  clear(): void {
    this.newer = new HashedTable()
    this.#older = new HashedTable()
  }
}

/** What the tables know of one key. Its slot is looked up again when it has moved. */
class HashedKey implements TouchedKey {
  readonly #generations: Generations
  readonly #low: number
  readonly #high: number
  #slot: number

  constructor(generations: Generations, low: number, high: number) {
    this.#generations = generations
    this.#low = low
    this.#high = high
    this.#slot = generations.slotOf(low, high)
  }

  get expirySentSeconds(): number {
    return this.#table().expiryAt(this.#slot)
  }

  set expirySentSeconds(seconds: number) {
    this.#table().setExpiryAt(this.#slot, seconds)
  }

  get place(): number {
    return this.#table().placeAt(this.#slot)
  }

  set place(place: number) {
    this.#table().setPlaceAt(this.#slot, place)
  }

  #table(): HashedTable {
    const generations = this.#generations
    if (!generations.newer.isAt(this.#slot, this.#low, this.#high)) {
      this.#slot = generations.slotOf(this.#low, this.#high)
    }
    return generations.newer
  }
}
