import type { Clock } from '@tollway/chassis/clock.ts'
import { ConnectionError } from './frames/frames.ts'

interface BudgetLimits {
  /** The amount that a peer may spend at once. */
  readonly burst: number
  /** The amount that is refilled each second, up to `burst`. */
  readonly perSecond: number
}

/** The most that a peer can earn, so that it cannot save for a flood. */
const maxEarned = 100_000

/** Limits the work that a peer can cause without making calls. */
export class Budget {
  readonly #what: string
  readonly #limits: BudgetLimits
  readonly #clock: Clock
  #left: number
  #refilledMs: number

  /** @param what the kind of work, for the error */
  constructor(what: string, limits: BudgetLimits, clock: Clock) {
    this.#what = what
    this.#limits = limits
    this.#clock = clock
    this.#left = limits.burst
    this.#refilledMs = clock.monotonicMs()
  }

  /** Adds the amount that the peer has earned. */
  earn(amount: number): void {
    if (this.#left < maxEarned) this.#left += amount
  }

  /**
   * Subtracts an amount. Reads the clock only when the budget is used up.
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
