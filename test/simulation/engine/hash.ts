/** Returns a number of 32 bits that each of the parts decides. */
export function hash32(...parts: readonly (string | number)[]): number {
  let state = 0x811c9dc5
  for (const part of parts) {
    const text = typeof part === 'string' ? part : `${part}`
    for (let index = 0; index < text.length; index++) {
      state = Math.imul(state ^ text.charCodeAt(index), 0x01000193)
    }
    state = Math.imul(state ^ 0x1f, 0x01000193)
  }
  return mix32(state)
}

/** Returns a number in [0, 1) that each of the parts decides. */
export function hashFraction(...parts: readonly (string | number)[]): number {
  return hash32(...parts) / 2 ** 32
}

/** The last step of MurmurHash3, after which each bit of the input has changed half of the others. */
export function mix32(value: number): number {
  let mixed = value
  mixed = Math.imul(mixed ^ (mixed >>> 16), 0x85ebca6b)
  mixed = Math.imul(mixed ^ (mixed >>> 13), 0xc2b2ae35)
  return (mixed ^ (mixed >>> 16)) >>> 0
}

/** Random choices from a seed, for the generation of scenarios. */
export class Random {
  readonly #seed: number
  #drawn = 0

  constructor(seed: number) {
    this.#seed = mix32(seed)
  }

  /** Returns a number in [0, 1). */
  next(): number {
    this.#drawn += 1
    return mix32(this.#seed + Math.imul(this.#drawn, 0x9e3779b1)) / 2 ** 32
  }

  /** Returns an integer from `lowest` to `highest`, both included. */
  integer(lowest: number, highest: number): number {
    return lowest + Math.floor(this.next() * (highest - lowest + 1))
  }

  /** Returns `least` to `most` times before the end, in their order, in whole milliseconds. */
  times(least: number, most: number, endMs: number): readonly number[] {
    const times = Array.from({ length: this.integer(least, most) }, () => Math.round(this.next() * endMs))
    return times.sort((one, other) => one - other)
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  pick<T>(choices: readonly [T, ...T[]]): T {
    return choices[Math.floor(this.next() * choices.length)] ?? choices[0]
  }

  /** Returns one of the keys, each as often as its weight says. */
  weighted<Key extends string>(weights: Readonly<Partial<Record<Key, number>>>): Key {
    const entries = Object.entries(weights) as [Key, number][]
    let left = this.next() * entries.reduce((sum, [, weight]) => sum + weight, 0)
    for (const [key, weight] of entries) {
      left -= weight
      if (left < 0) return key
    }
    return entries[0]?.[0] as Key
  }

  /**
   * Returns the weights of some of the keys, which one scenario chooses from. What rarely happens together where
   * everything may happen does so in the scenarios that have little else (swarm testing, Groce et al. 2012).
   */
  some<Weights extends Readonly<Record<string, number>>>(weights: Weights): Partial<Weights> {
    const kept = Object.entries(weights).flatMap(([key, weight]) =>
      this.chance(0.5) ? [[key, weight * this.pick([1, 1, 4])]] : [],
    )
    return kept.length > 0 ? Object.fromEntries(kept) : weights
  }
}
