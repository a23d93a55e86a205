import { randomInt } from 'node:crypto'

/** The hash of the last argument of `of`, as two 32-bit integers, so that hashing allocates no object. */
export interface Hash {
  /** Never 0. */
  readonly low: number
  readonly high: number
  of(text: string): void
}

const maxSeed = 2 ** 32

/**
 * A 64-bit hash with random seeds, so that clients cannot choose keys that collide. It is not cryptographic.
 */
export class KeyHash implements Hash {
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
