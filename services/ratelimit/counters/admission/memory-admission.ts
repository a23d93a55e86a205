import type { Clock } from '@tollway/chassis/clock.ts'
import { maxCount } from '../counters.ts'
import { type Expiring, ExpiringTable } from '../expiring-table.ts'
import { admitAll, type LimitState, type Member, type MemberOutcome } from './member.ts'
import { SlidingWindow, type Windows } from './sliding-window.ts'
import { type Bucket, TokenBucket } from './token-bucket.ts'

interface MemoryAdmissionOptions {
  /** `nowMs` is the time of the algorithms, `monotonicMs` that of expiry. */
  readonly clock: Clock
  /** The most states that are kept; at the limit the one that expires soonest is dropped. */
  readonly maxKeys: number
  /** Adds hits to the counter of a fixed window and returns its value; 0 only reads. */
  readonly count: (member: Member, hits: number) => number
}

interface Entry extends Expiring {
  readonly stored: Bucket | Windows
}

/** Returns a function that admits calls with the states in this process. */
export function createMemoryAdmission(
  options: MemoryAdmissionOptions,
): (members: readonly Member[]) => readonly MemberOutcome[] {
  const { clock, maxKeys, count } = options
  const entries = new ExpiringTable<Entry>(maxKeys)

  function open(member: Member, nowMs: number, nowSeconds: number): LimitState {
    if (member.algorithm === 'FixedWindow') return new FixedWindow(count(member, 0), member.limit)
    const now = ticksAt(nowMs, member.ticksPerSecond)
    const stored = entries.get(member.key, nowSeconds)?.stored
    return member.algorithm === 'TokenBucket'
      ? new TokenBucket(stored as Bucket | undefined, now, member)
      : new SlidingWindow(inTicks(stored as Windows | undefined, member), now, member)
  }

  function save(member: Member, state: LimitState, nowSeconds: number): void {
    if (state instanceof FixedWindow) {
      if (state.added !== 0) count(member, state.added)
    } else if (state instanceof TokenBucket || state instanceof SlidingWindow) {
      if (!state.isChanged() || member.hits === 0) return
      const lastSecond = Math.ceil(nowSeconds + state.expiry() / member.ticksPerSecond)
      const expiresAt = Math.max(entries.get(member.key, nowSeconds)?.expiresAt ?? 0, lastSecond)
      const stored = state instanceof SlidingWindow ? inSeconds(state.stored(), member) : state.stored()
      entries.set(member.key, { stored, expiresAt }, nowSeconds)
    }
  }

  return members => {
    const nowMs = clock.nowMs()
    const nowSeconds = clock.monotonicMs() / 1000
    const opened = new Map<string, readonly [Member, LimitState]>()
    const states = members.map(member => {
      const name = `${member.limit} ${member.key}`
      const [, state] = opened.get(name) ?? [member, open(member, nowMs, nowSeconds)]
      opened.set(name, opened.get(name) ?? [member, state])
      return state
    })
    const outcomes = admitAll(members, states)
    for (const [member, state] of opened.values()) save(member, state, nowSeconds)
    return outcomes
  }
}

/** Divides or multiplies by a whole number, since a product with both would exceed 2^53. */
function ticksAt(nowMs: number, ticksPerSecond: number): number {
  return Math.floor(ticksPerSecond === 1 ? nowMs / 1000 : nowMs * (ticksPerSecond / 1000))
}

/** A window begins at a whole second, so its start is the same for every tick. */
function inSeconds(windows: Windows, { ticksPerSecond }: Member): Windows {
  return { ...windows, start: windows.start / ticksPerSecond }
}

function inTicks(windows: Windows | undefined, { ticksPerSecond }: Member): Windows | undefined {
  return windows && { ...windows, start: windows.start * ticksPerSecond }
}

/** A count of the window that the key names. */
class FixedWindow implements LimitState {
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
