import type { Clock } from '@tollway/chassis/clock.ts'
import { ConnectionError } from './frames/frames.ts'

interface BudgetLimits {
  /** The amount at the start, and the most that a peer can have from time alone. */
  readonly burst: number
  /** Refilling stops at `burst`. */
  readonly perSecond: number
}

/** A peer cannot save more for a flood. */
const maxEarned = 100_000

/**
 * Limits the work that a peer can cause without calls: each piece costs an amount, which is refilled with
 * time and earned by calls.
 */
export class Budget {
  readonly #what: string
  readonly #limits: BudgetLimits
  readonly #clock: Clock
  #left: number
  #refilledMs: number

  /** @param what for the message of the error */
  constructor(what: string, limits: BudgetLimits, clock: Clock) {
    this.#what = what
    this.#limits = limits
    this.#clock = clock
    this.#left = limits.burst
    this.#refilledMs = clock.monotonicMs()
  }

  earn(amount: number): void {
    if (this.#left < maxEarned) this.#left += amount
  }

  /**
   * Subtracts an amount. To save time, the clock is read only when nothing is left.
   *
   * @throws ConnectionError ENHANCE_YOUR_CALM when the peer has exceeded its budget
   */
  spend(amount: number): void {
    this.#left -= amount
    if (this.#left < 0) this.#refill()
  }

  #refill(): void {
    const { burst, perSecond } = this.#limits
    const nowMs = this.#clock.monotonicMs()
    this.#left = Math.min(burst, this.#left + ((nowMs - this.#refilledMs) * perSecond) / 1000)
    this.#refilledMs = nowMs
    if (this.#left < 0) throw new ConnectionError('ENHANCE_YOUR_CALM', `too many ${this.#what}`)
  }
}
