import type { Counters } from './counters.ts'

type Health = Pick<Counters, 'healthy' | 'problem'>

/** How both are found at the moment when somebody asks. */
export interface HealthSource {
  readonly healthy: () => boolean
  readonly problem: () => string
}

/**
 * An object of these parts that also tells its health.
 *
 * The accessors are those of a class, since V8 keeps an object literal with accessors as a hash table: each call
 * of a method, such as `add`, then looks the method up there, and nothing is inlined.
 */
export function withHealth<Parts extends object>(parts: Parts, source: HealthSource): Parts & Health {
  return Object.assign(new LiveHealth(source), parts)
}

class LiveHealth implements Health {
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
