import { maxCount } from '../counters.ts'
import type { LimitCheck, LimitState } from './limit-check.ts'

type WindowLimit = Pick<LimitCheck, 'limit' | 'windowTicks'>

/**
 * The stored state: `current` has the counted hits of the window that begins at the tick `start`, and
 * `previous` those of the window before it. `current` is negative if more hits were granted than counted.
 */
export interface SlidingWindowState {
  readonly start: number
  readonly previous: number
  readonly current: number
  /**
   * The ticks by which `start` has gone back with the clock, in all. `start` and `shift` together name the
   * window in which hits were counted: the sum never goes back. Left out for 0.
   */
  readonly shift?: number
}

/**
 * A sliding window. To the hits of the current window it adds a share of the hits of the previous one: the
 * share of the previous window that a window ending now still covers. Windows are aligned to the epoch. If
 * the clock has stepped back to an earlier window, both counts are taken to be counts of that window.
 */
export class SlidingWindow implements LimitState {
  readonly #limit: WindowLimit
  readonly #start: number
  /** The ticks until the next window begins. */
  readonly #rest: number
  #previous: number
  #current: number
  #added = 0
  #isReduced = false
  /** How far the clock has stepped back since the last change. */
  readonly #back: number
  readonly #shift: number

  /** @param now the tick for which the state is computed */
  constructor(stored: SlidingWindowState | undefined, now: number, limit: WindowLimit) {
    const { windowTicks } = limit
    this.#limit = limit
    this.#start = now - (now % windowTicks)
    this.#rest = this.#start + windowTicks - now
    const { previous, current } = countsAt(stored, this.#start, windowTicks)
    this.#previous = previous
    this.#current = current
    this.#back = Math.max(0, (stored?.start ?? 0) - this.#start)
    this.#shift = (stored?.shift ?? 0) + this.#back
  }

  /** Names the window in which hits are counted now, also after the clock has stepped back. */
  get window(): number {
    return this.#start + this.#shift
  }

  /**
   * Compares two products instead of adding them. If more hits than the limit are counted, a product can
   * exceed 2^53 and is rounded; it is still larger than every exact one.
   */
  admits(hits: number): boolean {
    const { limit, windowTicks } = this.#limit
    return hits <= limit && this.#previous * this.#rest <= (limit - this.#current - hits) * windowTicks
  }

  add(hits: number): void {
    this.#current += hits
    this.#added += hits
  }

  undo(hits: number): void {
    this.add(-hits)
  }

  giveBack(hits: number): void {
    if (this.#current <= 0) return
    this.#isReduced = true
    this.#current -= Math.min(hits, this.#current)
  }

  room(): number {
    return maxCount - this.#current
  }

  empty(): void {
    this.#isReduced = true
    this.#previous = 0
    this.#current = 0
  }

  remaining(): number {
    const { limit, windowTicks } = this.#limit
    const left = limit * windowTicks - this.#previous * this.#rest
    return Math.floor(left / windowTicks) - this.#current
  }

  wait(hits: number): number | undefined {
    const { limit, windowTicks } = this.#limit
    if (hits > limit) return undefined
    const room = limit - this.#current - hits
    // While there is room in this window, hits fit when the hits of the previous window have lost enough
    // weight. Otherwise they fit in the next window, when the hits of this window, then the previous one,
    // have lost enough weight.
    if (room >= 0) return Math.max(0, this.#rest - findFittingRest(this.#previous, room, windowTicks))
    const rest = findFittingRest(this.#current, limit - hits, windowTicks)
    return this.#rest + Math.max(0, windowTicks - rest)
  }

  /** Returns whether the state must be stored: it was changed, or the clock has stepped back. */
  isChanged(): boolean {
    return this.#isReduced || this.#added !== 0 || this.#back > 0
  }

  /** Returns the ticks after which neither count has any weight. */
  expiry(): number {
    if (this.#current !== 0) return this.#rest + this.#limit.windowTicks
    return this.#previous > 0 ? this.#rest : 0
  }

  stored(): SlidingWindowState {
    const counted = { start: this.#start, previous: this.#previous, current: this.#current }
    return this.#shift === 0 ? counted : { ...counted, shift: this.#shift }
  }
}

function countsAt(
  stored: SlidingWindowState | undefined,
  start: number,
  windowTicks: number,
): Pick<SlidingWindowState, 'previous' | 'current'> {
  if (stored === undefined || start > stored.start + windowTicks) return { previous: 0, current: 0 }
  // Granted hits end with their window.
  return start > stored.start ? { previous: Math.max(0, stored.current), current: 0 } : stored
}

/**
 * Returns with how many ticks left in a window, at most, the hits of the window before weigh no more than
 * `room`.
 */
function findFittingRest(hits: number, room: number, windowTicks: number): number {
  return hits === 0 ? windowTicks : Math.floor((room * windowTicks) / hits)
}
