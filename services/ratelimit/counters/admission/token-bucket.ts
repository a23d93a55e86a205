import type { LimitCheck, LimitState } from './limit-check.ts'

type BucketLimit = Pick<LimitCheck, 'limit' | 'burst' | 'windowTicks' | 'ticksPerSecond'>

export interface TokenBucketState {
  /** The debt in ticks times `limit`; at most `maxDebt`. */
  readonly debt: number
  /** The tick at which the debt was computed. */
  readonly time: number
  readonly ticksPerSecond: number
}

/**
 * The largest debt for which all sums are exact. For limits that count rejected hits, `toAdmission` chooses
 * the length of a tick so that `maxDebt` is at least 1,000 bursts, where such a length exists. For other
 * limits, only the conversion to a shorter tick can reach it.
 */
export const maxDebt = 2 ** 52

/**
 * A token bucket, as GCRA in exact integers: each hit adds the window's ticks to the debt, and each tick
 * takes `limit` from it. A bucket is full when the debt is 0, and empty when it is `burst` windows.
 */
export class TokenBucket implements LimitState {
  readonly #limit: BucketLimit
  readonly #now: number
  #debt: number
  #added = 0
  #isReduced = false
  readonly #hasSteppedBack: boolean

  /** @param now the tick for which the state is computed */
  constructor(stored: TokenBucketState | undefined, now: number, limit: BucketLimit) {
    const before = stored === undefined ? { debt: 0, time: now } : convertTicks(stored, limit.ticksPerSecond)
    this.#limit = limit
    this.#now = now
    this.#debt = drainDebt(before.debt, now - before.time, limit.limit)
    this.#hasSteppedBack = stored !== undefined && now < before.time
  }

  admits(hits: number): boolean {
    const { burst, windowTicks } = this.#limit
    return this.#isPossible(hits) && this.#debt + hits * windowTicks <= burst * windowTicks
  }

  /** Granted tokens beyond a full bucket are lost. */
  add(hits: number): void {
    this.#debt = Math.max(0, this.#debt + hits * this.#limit.windowTicks)
    this.#added += hits
  }

  undo(hits: number): void {
    this.add(-hits)
  }

  giveBack(hits: number): void {
    if (this.#debt === 0) return
    this.#isReduced = true
    this.#debt = Math.max(0, this.#debt - hits * this.#limit.windowTicks)
  }

  /** Returns 0 for a limit of 0, since its debt would never be repaid. */
  room(): number {
    const { limit, windowTicks } = this.#limit
    return limit === 0 ? 0 : Math.floor((maxDebt - this.#debt) / windowTicks)
  }

  empty(): void {
    this.#isReduced = true
    this.#debt = 0
  }

  remaining(): number {
    const { limit, burst, windowTicks } = this.#limit
    return limit === 0 ? 0 : Math.floor((burst * windowTicks - this.#debt) / windowTicks)
  }

  wait(hits: number): number | undefined {
    if (!this.#isPossible(hits)) return undefined
    const { limit, burst, windowTicks } = this.#limit
    return Math.max(0, Math.ceil((this.#debt + hits * windowTicks - burst * windowTicks) / limit))
  }

  /** Returns whether the state must be stored: it was changed, or the clock has stepped back. */
  isChanged(): boolean {
    return this.#isReduced || this.#added !== 0 || this.#hasSteppedBack
  }

  expiry(): number {
    return this.#limit.limit === 0 ? 0 : Math.ceil(this.#debt / this.#limit.limit)
  }

  stored(): TokenBucketState {
    return { debt: this.#debt, time: this.#now, ticksPerSecond: this.#limit.ticksPerSecond }
  }

  #isPossible(hits: number): boolean {
    return this.#limit.limit > 0 && hits <= this.#limit.burst
  }
}

/** Counts no more time than the debt needs to reach 0, so that the product is exact. */
function drainDebt(debt: number, elapsed: number, limit: number): number {
  if (limit === 0) return debt
  return Math.max(0, debt - Math.min(Math.max(0, elapsed), Math.ceil(debt / limit)) * limit)
}

/** Rounds up, to the disadvantage of the caller, so that a change of the limit never admits more. */
function convertTicks(
  { debt, time, ticksPerSecond }: TokenBucketState,
  wanted: number,
): Omit<TokenBucketState, 'ticksPerSecond'> {
  if (ticksPerSecond === wanted) return { debt, time }
  const scaled = (ticks: number) =>
    wanted > ticksPerSecond ? ticks * (wanted / ticksPerSecond) : Math.ceil(ticks / (ticksPerSecond / wanted))
  return { debt: Math.min(maxDebt, scaled(debt)), time: scaled(time) }
}
