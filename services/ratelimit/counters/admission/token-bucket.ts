import type { LeaseTerms, LimitCheck, LimitState } from './limit-check.ts'

type BucketLimit = Pick<LimitCheck, 'limit' | 'burst' | 'windowTicks' | 'ticksPerSecond'>

export interface TokenBucketState {
  /** The debt in ticks times `limit`; at most `maxDebt`. */
  readonly debt: number
  /** The tick at which the debt was computed. */
  readonly time: number
  readonly ticksPerSecond: number
  readonly leases?: Leased
}

/** The hits of leases, by the second in which they were taken. Older leases have ended; see `leaseMs`. */
interface Leased {
  /** The second since the epoch of `recent`. */
  readonly second: number
  readonly recent: number
  /** Those of the second before. */
  readonly earlier: number
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
 *
 * A lease is owed as long as it lasts: if it was repaid meanwhile, its hits would be admitted beside those of
 * a full bucket. So the debt does not fall below that of all leases. A lease that nobody ends, because its
 * process was killed, ends within two seconds; what is given back of it later has been refilled already.
 */
export class TokenBucket implements LimitState {
  readonly #limit: BucketLimit
  readonly #now: number
  #debt: number
  #leases: Leased
  #added = 0
  #isReduced = false
  readonly #hasSteppedBack: boolean

  /** @param now the tick for which the state is computed */
  constructor(stored: TokenBucketState | undefined, now: number, limit: BucketLimit) {
    const before = stored === undefined ? { debt: 0, time: now } : convertTicks(stored, limit.ticksPerSecond)
    this.#limit = limit
    this.#now = now
    const drained = drainAboveLeases(before, now, stored?.leases, limit)
    this.#debt = drained.debt
    this.#leases = drained.leases
    this.#hasSteppedBack = stored !== undefined && now < before.time
  }

  admits(hits: number): boolean {
    const { burst, windowTicks } = this.#limit
    return this.#isPossible(hits) && this.#debt + hits * windowTicks <= burst * windowTicks
  }

  /** Granted tokens beyond a full bucket are lost. */
  add(hits: number): void {
    this.#debt = Math.max(this.#leasedDebt(), this.#debt + hits * this.#limit.windowTicks)
    this.#added += hits
  }

  undo(hits: number): void {
    this.add(-hits)
  }

  giveBack(hits: number): void {
    if (this.#debt === 0) return
    this.#isReduced = true
    this.#debt = Math.max(this.#leasedDebt(), this.#debt - hits * this.#limit.windowTicks)
  }

  lease(hits: number, { replaced, sinceMicros }: Pick<LeaseTerms, 'replaced' | 'sinceMicros'>): boolean {
    const { second, recent, earlier } = this.#leases
    const age = second - Math.floor(sinceMicros / 1_000_000)
    this.#isReduced = true
    this.#leases = {
      second,
      recent: hits + (age === 0 ? Math.max(0, recent - replaced) : recent),
      earlier: age === 1 ? Math.max(0, earlier - replaced) : earlier,
    }
    this.#debt = Math.max(this.#debt, this.#leasedDebt())
    return age === 0 || age === 1
  }

  /** Returns 0 for a limit of 0, since its debt would never be repaid. */
  room(): number {
    const { limit, windowTicks } = this.#limit
    return limit === 0 ? 0 : Math.floor((maxDebt - this.#debt) / windowTicks)
  }

  empty(): void {
    this.#isReduced = true
    this.#debt = 0
    this.#leases = { ...this.#leases, recent: 0, earlier: 0 }
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
    const { limit, ticksPerSecond } = this.#limit
    const untilLeasesEnd = this.#leasedDebt() === 0 ? 0 : 2 * ticksPerSecond
    return limit === 0 ? 0 : Math.ceil(this.#debt / limit) + untilLeasesEnd
  }

  stored(): TokenBucketState {
    const state = { debt: this.#debt, time: this.#now, ticksPerSecond: this.#limit.ticksPerSecond }
    return this.#leasedDebt() === 0 ? state : { ...state, leases: this.#leases }
  }

  #leasedDebt(): number {
    return toDebt(this.#leases, this.#limit)
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

/** Drains the debt from the time at which it was computed, in each second only as far as leases allow. */
function drainAboveLeases(
  before: Pick<TokenBucketState, 'debt' | 'time'>,
  now: number,
  stored: Leased | undefined,
  bucket: BucketLimit,
): { readonly debt: number; readonly leases: Leased } {
  const { limit, ticksPerSecond } = bucket
  let { debt, time } = before
  const second = Math.floor(now / ticksPerSecond)
  let leases = stored ?? { second, recent: 0, earlier: 0 }
  for (let owed = toDebt(leases, bucket); owed > 0 && leases.second < second; owed = toDebt(leases, bucket)) {
    const end = (leases.second + 1) * ticksPerSecond
    debt = Math.max(owed, drainDebt(debt, end - time, limit))
    time = Math.max(time, end)
    leases = { second: leases.second + 1, recent: 0, earlier: leases.recent }
  }
  const owed = toDebt(leases, bucket)
  if (owed === 0) leases = { second, recent: 0, earlier: 0 }
  return { debt: Math.max(owed, drainDebt(debt, now - time, limit)), leases }
}

function toDebt({ recent, earlier }: Leased, { burst, windowTicks }: BucketLimit): number {
  return Math.min(burst, recent + earlier) * windowTicks
}

/** Rounds up, to the disadvantage of the caller, so that a change of the limit never admits more. */
function convertTicks(
  { debt, time, ticksPerSecond }: TokenBucketState,
  wanted: number,
): Pick<TokenBucketState, 'debt' | 'time'> {
  if (ticksPerSecond === wanted) return { debt, time }
  const scaled = (ticks: number) =>
    wanted > ticksPerSecond ? ticks * (wanted / ticksPerSecond) : Math.ceil(ticks / (ticksPerSecond / wanted))
  return { debt: Math.min(maxDebt, scaled(debt)), time: scaled(time) }
}
