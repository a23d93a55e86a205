import type { Clock } from '@tollway/chassis/clock.ts'
import { maxCount } from '../counters.ts'
import { type Expiring, ExpiringTable } from '../expiring-table.ts'
import { Concurrency, type Holds } from './concurrency.ts'
import { admitAll, type LimitCheck, type LimitOutcome, type LimitState } from './limit-check.ts'
import { SlidingWindow, type SlidingWindowState } from './sliding-window.ts'
import { TokenBucket, type TokenBucketState } from './token-bucket.ts'

interface MemoryAdmissionOptions {
  /** `nowMs` is the time that the algorithms use, `monotonicMs` the time by which states expire. */
  readonly clock: Clock
  /** At most this many states are kept. A new state beyond that evicts others; see `ExpiringTable`. */
  readonly maxKeys: number
  /**
   * Adds hits to the counter of a fixed window and returns the counter's value; 0 hits only read. A call that asks for
   * hits also prolongs the counter to its expiry.
   */
  readonly count: (check: LimitCheck, hits: number, isAsked: boolean) => number
}

interface Entry extends Expiring {
  readonly stored: TokenBucketState | SlidingWindowState | Holds
}

/** The state of the checks of a call that have one key. */
interface Opened {
  readonly check: LimitCheck
  readonly state: LimitState
  /** Whether any of the checks is more than a check of 0 hits, which changes nothing. */
  isAsked: boolean
}

interface MemoryAdmission {
  /** Admits a call; the states of its limits are kept in this process. */
  admit(checks: readonly LimitCheck[]): readonly LimitOutcome[]
  /** Names the window in which a `SlidingWindow` counts hits now, see `SlidingWindow.window`. */
  windowOf(check: LimitCheck): number
}

export function createMemoryAdmission(options: MemoryAdmissionOptions): MemoryAdmission {
  const { clock, maxKeys, count } = options
  const entries = new ExpiringTable<Entry>(maxKeys)

  function open(check: LimitCheck, nowMs: number, nowSeconds: number): LimitState {
    if (check.algorithm === 'FixedWindow') return new FixedWindow(count(check, 0, false), check.limit)
    const now = ticksAt(nowMs, check.ticksPerSecond)
    const stored = entries.get(check.key, nowSeconds)?.stored
    if (check.algorithm === 'Concurrency') return new Concurrency(stored as Holds | undefined, now, check)
    return check.algorithm === 'TokenBucket'
      ? new TokenBucket(stored as TokenBucketState | undefined, now, check)
      : openWindow(check, nowMs, nowSeconds)
  }

  function openWindow(check: LimitCheck, nowMs: number, nowSeconds: number): SlidingWindow {
    const stored = entries.get(check.key, nowSeconds)?.stored as SlidingWindowState | undefined
    return new SlidingWindow(inTicks(stored, check), ticksAt(nowMs, check.ticksPerSecond), check)
  }

  function save({ check, state, isAsked }: Opened, nowSeconds: number): void {
    if (state instanceof FixedWindow) {
      if (isAsked) count(check, state.added, check.hits > 0)
    } else if (
      state instanceof TokenBucket ||
      state instanceof SlidingWindow ||
      state instanceof Concurrency
    ) {
      if (!isAsked || !state.isChanged()) return
      const lastSecond = Math.ceil(nowSeconds + state.expiry() / check.ticksPerSecond)
      const expiresAt = Math.max(entries.get(check.key, nowSeconds)?.expiresAt ?? 0, lastSecond)
      const stored = state instanceof SlidingWindow ? inSeconds(state.stored(), check) : state.stored()
      entries.set(check.key, { stored, expiresAt }, nowSeconds)
    }
  }

  function admit(checks: readonly LimitCheck[]): readonly LimitOutcome[] {
    const nowMs = clock.nowMs()
    const nowSeconds = clock.monotonicMs() / 1000
    const opened = new Map<string, Opened>()
    const states = checks.map(check => {
      const name = `${check.limit} ${check.key}`
      const known = opened.get(name) ?? { check, state: open(check, nowMs, nowSeconds), isAsked: false }
      known.isAsked ||= check.hits !== 0 || check.lease !== undefined
      opened.set(name, known)
      return known.state
    })
    const outcomes = admitAll(checks, states)
    for (const each of opened.values()) save(each, nowSeconds)
    return checks[0]?.lease === undefined
      ? outcomes
      : outcomes.map(outcome => ({ ...outcome, atMicros: nowMs * 1_000 }))
  }

  return {
    admit,
    windowOf: check => openWindow(check, clock.nowMs(), clock.monotonicMs() / 1000).window,
  }
}

/** Multiplies once by the quotient: `nowMs` times the ticks of a second would exceed 2^53. */
function ticksAt(nowMs: number, ticksPerSecond: number): number {
  return Math.floor(ticksPerSecond === 1 ? nowMs / 1000 : nowMs * (ticksPerSecond / 1000))
}

/** Converts the start to whole seconds: stored so, it does not depend on the length of a tick. */
function inSeconds(windows: SlidingWindowState, { ticksPerSecond }: LimitCheck): SlidingWindowState {
  const { start, shift } = windows
  return { ...windows, start: start / ticksPerSecond, ...(shift && { shift: shift / ticksPerSecond }) }
}

function inTicks(
  windows: SlidingWindowState | undefined,
  { ticksPerSecond }: LimitCheck,
): SlidingWindowState | undefined {
  if (windows === undefined) return undefined
  const { start, shift } = windows
  return { ...windows, start: start * ticksPerSecond, ...(shift && { shift: shift * ticksPerSecond }) }
}

/** The count of the window whose start is in the key. */
class FixedWindow implements LimitState {
  readonly #limit: number
  #count: number
  /** The hits that were counted but are not stored yet. */
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

  undo(hits: number): void {
    this.add(-hits)
  }

  giveBack(hits: number): void {
    this.add(-Math.min(hits, Math.max(0, this.#count)))
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
