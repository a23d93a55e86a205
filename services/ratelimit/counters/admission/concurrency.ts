import type { LimitCheck, LimitState } from './limit-check.ts'

type HoldLimit = Pick<LimitCheck, 'limit' | 'windowTicks' | 'hold'>

/** The hits of an admitted call that was not released yet. */
interface Hold {
  /** The tick at which the hold ends by itself. */
  until: number
  hits: number
  /** Undefined for a hold that only ends by itself or as the first one. */
  readonly name?: string | undefined
}

/** The stored state. It changes in place, because a copy of all holds for each call would be expensive. */
export interface Holds {
  /** The holds in the order of their ends. */
  readonly holds: Hold[]
  /** The sum of the hits of all holds. */
  held: number
  /** The tick of the last change. */
  time: number
}

/**
 * A limit of the hits that are held at the same time. Each admitted call is a hold of its hits, which ends
 * when hits are given back or after the lease (`windowTicks`). Given back is first what would end first. If
 * the clock has stepped back, each hold lasts as long as it would have at the last change.
 */
export class Concurrency implements LimitState {
  readonly #limit: HoldLimit
  readonly #now: number
  readonly #state: Holds
  /** How far the clock has stepped back since the last change. */
  #back: number
  /** The number of stored holds that have ended. */
  #ended = 0
  #held: number
  #isChanged = false
  /** The holds of this call. */
  readonly #taken: Hold[] = []

  /** @param now the tick for which the state is computed */
  constructor(stored: Holds | undefined, now: number, limit: HoldLimit) {
    this.#limit = limit
    this.#now = now
    this.#state = stored ?? { holds: [], held: 0, time: now }
    this.#back = Math.max(0, this.#state.time - now)
    this.#held = this.#state.held
    for (const { until, hits } of this.#state.holds) {
      if (until - this.#back > now) break
      this.#ended += 1
      this.#held -= hits
    }
  }

  /** A hold that has ended is not renewed. */
  admits(hits: number): boolean {
    const { hold } = this.#limit
    if (hold?.renews) return this.#state.holds.findIndex(({ name }) => name === hold.name) >= this.#ended
    return this.#held + hits <= this.#limit.limit
  }

  add(hits: number): void {
    if (hits < 0) this.giveBack(-hits)
    if (hits <= 0) return
    this.#settle()
    const { hold: named, windowTicks } = this.#limit
    const until = this.#now + (named?.ticks ?? windowTicks)
    if (named?.renews) {
      const known = this.#end(named.name)
      if (known !== undefined) this.#insert({ ...known, until })
      return
    }
    const hold = { until, hits, name: named?.name }
    this.#insert(hold)
    this.#taken.push(hold)
  }

  #insert(hold: Hold): void {
    const { holds } = this.#state
    // The lease may have been longer before, so the new hold is not always the last one.
    holds.splice(holds.findLastIndex(({ until }) => until <= hold.until) + 1, 0, hold)
    this.#held += hold.hits
  }

  undo(): void {
    const hold = this.#taken.pop()
    const index = hold === undefined ? -1 : this.#state.holds.lastIndexOf(hold)
    if (hold === undefined || index === -1) return
    this.#state.holds.splice(index, 1)
    this.#held -= hold.hits
  }

  giveBack(hits: number): void {
    if (this.#held === 0) return
    this.#settle()
    const { holds } = this.#state
    const { hold: named } = this.#limit
    if (named !== undefined) {
      this.#end(named.name)
      return
    }
    let left = hits
    for (let first = holds[0]; first !== undefined && left > 0; first = holds[0]) {
      const ended = Math.min(left, first.hits)
      left -= ended
      first.hits -= ended
      this.#held -= ended
      if (first.hits === 0) holds.shift()
    }
  }

  /** Returns the hold; undefined if it has ended already. */
  #end(name: string): Hold | undefined {
    const { holds } = this.#state
    const index = holds.findIndex(hold => hold.name === name)
    const [hold] = index === -1 ? [] : holds.splice(index, 1)
    this.#held -= hold?.hits ?? 0
    return hold
  }

  /** At most twice the limit is held, by calls that are only reported. */
  room(): number {
    return Math.max(0, 2 * this.#limit.limit - this.#held)
  }

  empty(): void {
    this.giveBack(this.#held)
  }

  remaining(): number {
    return this.#limit.limit - this.#held
  }

  wait(hits: number): number | undefined {
    if (hits > this.#limit.limit) return undefined
    let tooMany = this.#held + hits - this.#limit.limit
    const { holds } = this.#state
    for (let index = this.#ended; tooMany > 0 && index < holds.length; index++) {
      const { until, hits: ending } = holds[index] as Hold
      tooMany -= ending
      if (tooMany <= 0) return until - this.#back - this.#now
    }
    return 0
  }

  /** Returns whether the state must be stored: it was changed, holds have ended, or the clock has stepped back. */
  isChanged(): boolean {
    return this.#isChanged || this.#ended > 0 || this.#back > 0
  }

  /** Returns the ticks until the last hold ends. */
  expiry(): number {
    return Math.max(0, (this.#state.holds.at(-1)?.until ?? 0) - this.#back - this.#now)
  }

  stored(): Holds {
    this.#settle()
    this.#state.held = this.#held
    return this.#state
  }

  /** Removes ended holds, and sets the time of the state to this call's. */
  #settle(): void {
    this.#isChanged = true
    const { holds } = this.#state
    holds.splice(0, this.#ended)
    this.#ended = 0
    if (this.#back > 0) for (const hold of holds) hold.until -= this.#back
    this.#back = 0
    this.#state.time = this.#now
  }
}
