import { maxCount } from '../counters.ts'
import type { LimitState } from './member.ts'

/** A count of the window that the key names. */
export class FixedWindow implements LimitState {
  readonly #limit: number
  #count: number
  /** The hits that were counted and are not stored yet. */
  added = 0

  constructor(count: number, limit: number) {
    this.#count = count
    this.#limit = limit
  }

  admits(hits: number): boolean {
    return this.#count + hits <= this.#limit
  }

  add(hits: number): void {
    this.#count += hits
    this.added += hits
  }

  room(): number {
    return maxCount - this.#count
  }

  empty(): void {
    this.add(-this.#count)
  }

  remaining(): number {
    return this.#limit - this.#count
  }

  wait(): number {
    return 0
  }
}
