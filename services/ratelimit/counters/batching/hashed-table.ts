const initialSlots = 1024
const maxLoad = 0.75
/** An index beyond the end of every list. */
const noPlace = 2 ** 31 - 1

/**
 * Numbers by a 64-bit hash: open addressing with linear probing, in typed arrays. An entry takes 16 bytes, at
 * a load of 0.38 to 0.75, and the garbage collector visits none of them. Entries are never removed.
 *
 * A hash is two 32-bit integers, of which the first is not 0. A slot is valid until the next `insert`.
 */
export class HashedTable {
  size = 0
  #lows = new Int32Array(initialSlots)
  #highs = new Int32Array(initialSlots)
  #expiries = new Uint32Array(initialSlots)
  #places = new Int32Array(initialSlots)

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
    return this.#put(low, high, expiry, noPlace)
  }

  expiryAt(slot: number): number {
    return this.#expiries[slot] ?? 0
  }

  setExpiryAt(slot: number, seconds: number): void {
    this.#expiries[slot] = seconds
  }

  placeAt(slot: number): number {
    return this.#places[slot] ?? 0
  }

  setPlaceAt(slot: number, place: number): void {
    this.#places[slot] = place
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

  #put(low: number, high: number, expiry: number, place: number): number {
    const slot = this.#probe(low, high)
    this.#lows[slot] = low
    this.#highs[slot] = high
    this.#expiries[slot] = expiry
    this.#places[slot] = place
    return slot
  }

  #grow(): void {
    const [lows, highs, expiries, places] = [this.#lows, this.#highs, this.#expiries, this.#places]
    const slots = 2 * lows.length
    this.#lows = new Int32Array(slots)
    this.#highs = new Int32Array(slots)
    this.#expiries = new Uint32Array(slots)
    this.#places = new Int32Array(slots)
    for (let slot = 0; slot < lows.length; slot++) {
      const low = lows[slot] ?? 0
      if (low !== 0) this.#put(low, highs[slot] ?? 0, expiries[slot] ?? 0, places[slot] ?? 0)
    }
  }
}
