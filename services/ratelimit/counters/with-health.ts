import type { Counters } from './counters.ts'

type Health = Pick<Counters, 'healthy' | 'problem'>

/** Functions that return the current health. */
interface HealthSource {
  readonly healthy: () => boolean
  readonly problem: () => string
}

/**
 * Adds the accessors `healthy` and `problem` to the parts.
 *
 * The accessors are those of a class, because V8 keeps an object literal with accessors as a slow hash table:
 * each call of a method, such as `add`, would be a hash lookup, and V8 would inline nothing.
 */
export function withHealth<Parts extends object>(parts: Parts, source: HealthSource): Parts & Health {
  return Object.assign(new HealthView(source), parts)
}

class HealthView implements Health {
  readonly #source: HealthSource

  constructor(source: HealthSource) {
    this.#source = source
  }

  get healthy(): boolean {
    return this.#source.healthy()
  }

  get problem(): string {
    return this.#source.problem()
  }
}
