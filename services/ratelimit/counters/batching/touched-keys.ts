import { randomInt } from 'node:crypto'

/**
 * Returns whether an expiry must be sent: the one that was last sent is shorter than the unit of the hit, so
 * the backend could drop the counter before the unit is over.
 */
export function needsExpiry(touched: TouchedKey, expirySeconds: number): boolean {
  return touched.expirySentSeconds < expirySeconds
}

export interface TouchedKey {
  /**
   * The expiry that was last sent to the backend, in seconds, jitter included. 0 if none was sent or the last
   * one failed. Whoever sends an expiry sets this.
   */
  expirySentSeconds: number
  /**
   * The index of the key's increment in the last write that included the key. If that is not known, an index
   * beyond the end of every write. See `sumEqualKeys`.
   */
  incrementIndex: number
}

/** At most this many keys are remembered; their table takes about 8 MB. */
export const defaultMaxTouchedKeys = 390_000

/**
 * The keys, including their window, that this process has touched recently, with a state for each. Each hit
 * looks its key up once. A key may be forgotten; its next touch is then treated as the first.
 *
 * A key is identified by a 64-bit hash with seeds of the process, not by its text: 100,000 keys take 2 to 4
 * MB instead of 14, none of which the garbage collector visits. Two keys with the same hash share one state,
 * so the first increment of the second key may be sent without its expiry. The expiry is not lost: from the
 * backend's reply, each sender detects that the counter was new and then sends the expiry, as it does for a
 * counter that the backend has evicted.
 */
export class TouchedKeys {
  readonly #generations: Generations
  readonly #hash: Pick<KeyHash, 'low' | 'high' | 'of'>

  /** @param hash the hash that identifies keys; a test passes one with collisions */
  constructor(maxKeys: number, hash: Pick<KeyHash, 'low' | 'high' | 'of'> = new KeyHash()) {
    this.#generations = new Generations(Math.max(1, Math.floor(maxKeys / 2)))
    this.#hash = hash
  }

  /** Returns the state of the key; inserts a key that is not remembered, as one whose expiry was not sent. */
  of(key: string): TouchedKey {
    const hash = this.#hash
    hash.of(key)
    return new HashedKey(this.#generations, hash.low, hash.high)
  }

  clear(): void {
    this.#generations.clear()
  }
}

/**
 * Two tables, each for half of the keys. When the newer table is full, the older one is dropped and a new one
 * begins. A key in use is copied to the newer table, so no order of keys has to be maintained.
 */
class Generations {
  newer = new HashedTable()
  #older = new HashedTable()
  readonly #maxPerGeneration: number

  constructor(maxPerGeneration: number) {
    this.#maxPerGeneration = maxPerGeneration
  }

  /** Returns the key's slot in the newer table; inserts the key with its expiry from the older table. */
  findOrInsert(low: number, high: number): number {
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

/** The state of one key. Its slot is looked up again when the newer table has another key there. */
class HashedKey implements TouchedKey {
  readonly #generations: Generations
  readonly #low: number
  readonly #high: number
  #slot: number

  constructor(generations: Generations, low: number, high: number) {
    this.#generations = generations
    this.#low = low
    this.#high = high
    this.#slot = generations.findOrInsert(low, high)
  }

  get expirySentSeconds(): number {
    return this.#table().expiryAt(this.#slot)
  }

  set expirySentSeconds(seconds: number) {
    this.#table().setExpiryAt(this.#slot, seconds)
  }

  get incrementIndex(): number {
    return this.#table().incrementIndexAt(this.#slot)
  }

  set incrementIndex(incrementIndex: number) {
    this.#table().setIncrementIndexAt(this.#slot, incrementIndex)
  }

  #table(): HashedTable {
    const generations = this.#generations
    if (!generations.newer.isAt(this.#slot, this.#low, this.#high)) {
      this.#slot = generations.findOrInsert(this.#low, this.#high)
    }
    return generations.newer
  }
}

const maxSeed = 2 ** 32

/**
 * A 64-bit hash with random seeds, so that clients cannot choose keys that collide. It is not cryptographic.
 * Two 32-bit fields have the hash until the next call of `of`, so that no object is allocated.
 */
export class KeyHash {
  /** The lower half of the hash; never 0 after a call of `of`. */
  low = 0
  high = 0
  readonly #seeds: readonly [number, number]

  constructor(seeds: readonly [number, number] = [randomInt(maxSeed), randomInt(maxSeed)]) {
    this.#seeds = seeds
  }

  /** Hashes the UTF-16 code units of the text, two at a time. */
  of(text: string): void {
    const { length } = text
    const even = length & ~1
    let low = this.#seeds[0] ^ length
    let high = this.#seeds[1] | 0
    for (let index = 0; index < even; index += 2) {
      const units = text.charCodeAt(index) | (text.charCodeAt(index + 1) << 16)
      low = Math.imul(low ^ units, 0x9e3779b1)
      low ^= low >>> 15
      high = Math.imul(high + low, 0x85ebca77) ^ units
      high ^= high >>> 13
    }
    if (even < length) {
      low = Math.imul(low ^ text.charCodeAt(even), 0x9e3779b1)
      high = Math.imul(high + low, 0x85ebca77) ^ text.charCodeAt(even)
    }
    low = Math.imul(low ^ (high >>> 16), 0xc2b2ae3d)
    high = Math.imul(high ^ (low >>> 13), 0x27d4eb2f)
    // Zero marks a free slot of a table.
    this.low = low ^ (low >>> 16) || 1
    this.high = high ^ (high >>> 15)
  }
}

const initialSlots = 1024
const maxLoad = 0.75
/** An index beyond the end of every list. */
const noIndex = 2 ** 31 - 1

/**
 * A table from a 64-bit hash to two numbers: open addressing with linear probing, in typed arrays that the
 * garbage collector does not visit. A slot takes 16 bytes; 38 to 75 % of the slots are used after the first
 * growth. Entries are never removed.
 *
 * A hash is two 32-bit integers, of which the first is not 0. A slot is valid until the next `insert`.
 */
class HashedTable {
  size = 0
  #lows = new Int32Array(initialSlots)
  #highs = new Int32Array(initialSlots)
  #expiries = new Uint32Array(initialSlots)
  #incrementIndexes = new Int32Array(initialSlots)

  /** Returns the slot of the entry, or -1. */
  find(low: number, high: number): number {
    const slot = this.#probe(low, high)
    return this.#lows[slot] === 0 ? -1 : slot
  }

  isAt(slot: number, low: number, high: number): boolean {
    return this.#lows[slot] === low && this.#highs[slot] === high
  }

  /** Adds an entry, which must not exist yet. Returns its slot. */
  insert(low: number, high: number, expiry: number): number {
    if (this.size >= this.#lows.length * maxLoad) this.#grow()
    this.size += 1
    return this.#put(low, high, expiry, noIndex)
  }

  expiryAt(slot: number): number {
    return this.#expiries[slot] ?? 0
  }

  setExpiryAt(slot: number, seconds: number): void {
    this.#expiries[slot] = seconds
  }

  incrementIndexAt(slot: number): number {
    return this.#incrementIndexes[slot] ?? 0
  }

  setIncrementIndexAt(slot: number, incrementIndex: number): void {
    this.#incrementIndexes[slot] = incrementIndex
  }

  /** Returns the slot of the entry, or the free slot for it. */
  #probe(low: number, high: number): number {
    const lows = this.#lows
    const highs = this.#highs
    const mask = lows.length - 1
    let slot = low & mask
    for (;;) {
      const found = lows[slot]
      if (found === 0 || (found === low && highs[slot] === high)) return slot
      slot = (slot + 1) & mask
    }
  }

  #put(low: number, high: number, expiry: number, incrementIndex: number): number {
    const slot = this.#probe(low, high)
    this.#lows[slot] = low
    this.#highs[slot] = high
    this.#expiries[slot] = expiry
    this.#incrementIndexes[slot] = incrementIndex
    return slot
  }

  #grow(): void {
    const lows = this.#lows
    const highs = this.#highs
    const expiries = this.#expiries
    const incrementIndexes = this.#incrementIndexes
    const slots = 2 * lows.length
    this.#lows = new Int32Array(slots)
    this.#highs = new Int32Array(slots)
    this.#expiries = new Uint32Array(slots)
    this.#incrementIndexes = new Int32Array(slots)
    for (let slot = 0; slot < lows.length; slot++) {
      const low = lows[slot] ?? 0
      if (low !== 0) this.#put(low, highs[slot] ?? 0, expiries[slot] ?? 0, incrementIndexes[slot] ?? 0)
    }
  }
}
