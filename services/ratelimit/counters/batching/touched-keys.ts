import { HashedTable } from './hashed-table.ts'
import { type Hash, KeyHash } from './key-hash.ts'

/**
 * The keys, window included, that this process has touched recently, with the state of each: one lookup per
 * hit. A key may be forgotten; its next touch is then treated as the first.
 *
 * A key is identified by a 64-bit hash with seeds of the process, not by its text: 100,000 keys take 2 to 4
 * MB instead of 14, none of which the garbage collector visits. Two keys with the same hash share their
 * state, so the first increment of the second one may be sent without its expiry. The expiry is not lost:
 * each sender compares the backend's reply with the increment, detects that the counter was new, and then
 * sends the expiry, as it does for a counter that the backend has evicted.
 */
export interface TouchedKeys {
  /** Returns the state of the key, and remembers the key. */
  of(key: string): TouchedKey
  clear(): void
}

/**
 * Returns whether the backend may drop the counter before its unit is over unless a longer expiry is sent.
 */
export function needsExpiry(touched: TouchedKey, expirySeconds: number): boolean {
  return touched.expirySentSeconds < expirySeconds
}

export interface TouchedKey {
  /**
   * The expiry that was last sent to the backend, in seconds, jitter included; 0 if none was sent or the
   * backend rejected it. The sender of an expiry sets it.
   */
  expirySentSeconds: number
  /**
   * The index of the key's increment in the last write that included it; beyond the end of every write if
   * that is not known. See `sumEqualKeys`.
   */
  place: number
}

/** The table takes about 8 MB when full. */
export const defaultMaxTouchedKeys = 390_000

/** @param hash the hash by which keys are identified; a test passes one with collisions */
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
 * Two tables of half the size: when the newer one is full, the older one is dropped. Keys in use are kept,
 * and no order of keys has to be maintained.
 */
class Generations {
  newer = new HashedTable()
  #older = new HashedTable()
  readonly #maxPerGeneration: number

  constructor(maxPerGeneration: number) {
    this.#maxPerGeneration = maxPerGeneration
  }

  /** Returns the slot of the key in the newer table; inserts the key if necessary. */
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

/** The state of one key in the tables. Its slot is looked up again after the key has moved. */
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
