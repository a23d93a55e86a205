import { hash, randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '../clock.ts'

/** A bucket of `burst` tokens, full at first. It gets `perSecond` tokens a second until it is full. */
interface Rate {
  readonly perSecond: number
  readonly burst: number
}

type Monotonic = Pick<Clock, 'monotonicMs'>

/** A shorter wait is a rounding error. */
const shortestWaitMs = 0.001

/**
 * Returns the milliseconds until a bucket has this many tokens. `fullMs`, the time when the bucket will be
 * full, is its whole state.
 */
function waitFor(tokens: number, rate: Rate, fullMs: number, nowMs: number): number {
  const waitMs = Math.max(fullMs, nowMs) - nowMs - ((rate.burst - tokens) * 1_000) / rate.perSecond
  return waitMs < shortestWaitMs ? 0 : waitMs
}

/** A bucket of tokens, as `rate.Limiter` of golang.org/x/time/rate. */
export class RateLimiter {
  readonly #rate: Rate
  readonly #clock: Monotonic
  #fullMs = Number.NEGATIVE_INFINITY

  constructor(rate: Rate, clock: Monotonic) {
    this.#rate = rate
    this.#clock = clock
  }

  /** Returns the milliseconds until `tryAcquire` succeeds; 0 for now. */
  waitMs(tokens = 1): number {
    return waitFor(tokens, this.#rate, this.#fullMs, this.#clock.monotonicMs())
  }

  /** Returns false and takes nothing if the bucket has too few tokens. */
  tryAcquire(tokens = 1): boolean {
    const isAllowed = this.waitMs(tokens) === 0
    if (isAllowed) this.reserve(tokens)
    return isAllowed
  }

  /**
   * Takes the tokens even if the bucket lacks them, so that later calls wait longer. Returns the milliseconds
   * until it would have them.
   */
  reserve(tokens = 1): number {
    const nowMs = this.#clock.monotonicMs()
    const waitMs = waitFor(tokens, this.#rate, this.#fullMs, nowMs)
    this.#fullMs = Math.max(this.#fullMs, nowMs) + (tokens * 1_000) / this.#rate.perSecond
    return waitMs
  }

  /**
   * Takes a token, and resolves when the bucket has it; calls are served in order. Rejects when the signal
   * aborts, without returning the token.
   */
  async acquire(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const waitMs = this.reserve()
    if (waitMs > 0) await pause(waitMs, undefined, { signal })
  }
}

/**
 * A key has one counter in each row. The counter that is full soonest decides, since it has the fewest tokens
 * of other keys.
 */
const rows = 4
const countersOfRow = 8_192
const bytesOfIndex = 4

/**
 * Limits how often each key does something, by a bucket of `perMinute` tokens for each key.
 *
 * The counters are a count-min sketch of 256 KiB that never grows. A key is wrongly rejected only if busy
 * keys share all of its counters; a busy key is never forgotten, however many keys there are. A random salt
 * decides which counters a key has, so that no client can choose them.
 */
export class KeyedRateLimiter {
  readonly #rate: Rate
  readonly #clock: Monotonic
  readonly #salt = randomBytes(16).toString('hex')
  /** When the bucket of each counter is full again. */
  readonly #fullMs = new Float64Array(rows * countersOfRow)

  constructor(perMinute: number, clock: Monotonic) {
    this.#rate = { perSecond: perMinute / 60, burst: perMinute }
    this.#clock = clock
  }

  /** Takes a token and returns 0; or takes nothing and returns the milliseconds until the key has one. */
  take(key: string): number {
    const nowMs = this.#clock.monotonicMs()
    const counters = this.#findCounters(key)
    const waitMs = this.#waitMs(counters, nowMs)
    if (waitMs === 0) this.#raise(counters, Math.max(nowMs, this.#findFullMs(counters)) + this.#toMs(1))
    return waitMs
  }

  /** Returns what `take` would return, but takes nothing. */
  waitMs(key: string): number {
    return this.#waitMs(this.#findCounters(key), this.#clock.monotonicMs())
  }

  /** Leaves the key without a token for `waitMs`. */
  cooldown(key: string, waitMs: number): void {
    const untilMs = this.#clock.monotonicMs() + waitMs
    this.#raise(this.#findCounters(key), untilMs + this.#toMs(this.#rate.burst - 1))
  }

  #findCounters(key: string): readonly number[] {
    const digest = hash('sha256', this.#salt + key, 'buffer')
    return Array.from({ length: rows }, (_, row) => {
      return row * countersOfRow + (digest.readUInt32LE(row * bytesOfIndex) % countersOfRow)
    })
  }

  #findFullMs(counters: readonly number[]): number {
    return Math.min(...counters.map(counter => this.#fullMs[counter] ?? 0))
  }

  #waitMs(counters: readonly number[], nowMs: number): number {
    const waitMs = waitFor(1, this.#rate, this.#findFullMs(counters), nowMs)
    return Math.max(0, Math.ceil(waitMs - shortestWaitMs))
  }

  #raise(counters: readonly number[], fullMs: number): void {
    for (const counter of counters) this.#fullMs[counter] = Math.max(this.#fullMs[counter] ?? 0, fullMs)
  }

  #toMs(tokens: number): number {
    return (tokens * 1_000) / this.#rate.perSecond
  }
}
