import type { Clock } from '@tollway/chassis/clock.ts'
import { ConnectionError } from './frames/frames.ts'

interface BudgetLimits {
  /** The amount that a peer may spend at once, and the amount at the start. */
  readonly burst: number
  /** The amount that is refilled each second; refilling stops at `burst`. */
  readonly perSecond: number
}

/** Nothing is earned from this amount on, so that a peer cannot save for a flood. */
const maxEarned = 100_000

/**
 * Limits the work that a peer can cause without making calls: each piece of work costs an amount, which is
 * refilled with time and earned by calls.
 */
export class Budget {
  readonly #what: string
  readonly #limits: BudgetLimits
  readonly #clock: Clock
  #left: number
  #refilledMs: number

  /** @param what the kind of work, for the message of the error */
  constructor(what: string, limits: BudgetLimits, clock: Clock) {
    this.#what = what
    this.#limits = limits
    this.#clock = clock
    this.#left = limits.burst
    this.#refilledMs = clock.monotonicMs()
  }

  /** Adds an amount that the peer has earned by well-behaved use. */
  earn(amount: number): void {
    if (this.#left < maxEarned) this.#left += amount
  }

  /**
   * Subtracts an amount. To save time, the clock is read and the budget refilled only when nothing is left.
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
