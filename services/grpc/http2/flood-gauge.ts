import type { Clock } from '@tollway/chassis/clock.ts'
import { ConnectionError } from './frames.ts'

/** Counts what an honest peer does now and then, and a hostile one as often as it can. */
export class FloodGauge {
  readonly #what: string
  readonly #maxPerSecond: number
  readonly #clock: Clock
  #count = 0
  #sinceMs: number

  constructor(what: string, maxPerSecond: number, clock: Clock) {
    this.#what = what
    this.#maxPerSecond = maxPerSecond
    this.#clock = clock
    this.#sinceMs = clock.monotonicMs()
  }

  /**
   * One more. The clock is read only for those that could be too many.
   *
   * @throws ConnectionError ENHANCE_YOUR_CALM when there were more than allowed within a second.
   */
  count(): void {
    this.#count += 1
    if (this.#count <= this.#maxPerSecond) return
    const nowMs = this.#clock.monotonicMs()
    if (nowMs - this.#sinceMs < 1000) {
      throw new ConnectionError('ENHANCE_YOUR_CALM', `more than ${this.#maxPerSecond} ${this.#what} a second`)
    }
    this.#count = 1
    this.#sinceMs = nowMs
  }
}
