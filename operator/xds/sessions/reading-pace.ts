import type { Clock } from '@tollway/chassis/clock.ts'

export interface PaceLimits {
  readonly reportsPerSecond: number
  readonly bytesPerSecond: number
  /** The seconds of this rate that are read at once after a pause of the sender. */
  readonly burstSeconds: number
}

/**
 * The pace at which the reports of one stream are read. Reports that are not read keep the flow-control
 * window of their stream closed, so a sender that floods costs the operator neither memory nor the time of
 * others.
 */
export class ReadingPace {
  readonly #limits: PaceLimits
  readonly #clock: Pick<Clock, 'monotonicMs'>
  /** When everything that was read would have been read at the pace. */
  #dueMs = 0

  constructor(limits: PaceLimits, clock: Pick<Clock, 'monotonicMs'>) {
    this.#limits = limits
    this.#clock = clock
  }

  /** Counts a report of this length. Returns the milliseconds until the next one may be read. */
  waitAfter(bytes: number): number {
    const { reportsPerSecond, bytesPerSecond, burstSeconds } = this.#limits
    const nowMs = this.#clock.monotonicMs()
    const costSeconds = Math.max(1 / reportsPerSecond, bytes / bytesPerSecond)
    this.#dueMs = Math.max(nowMs, this.#dueMs) + 1_000 * costSeconds
    return Math.max(0, this.#dueMs - nowMs - 1_000 * burstSeconds)
  }
}
