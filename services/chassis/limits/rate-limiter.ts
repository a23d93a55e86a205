import { hash, randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '../clock.ts'

/** A bucket of `burst` tokens. It is full at first, and gets `perSecond` tokens a second until it is full. */
interface Rate {
  readonly perSecond: number
  readonly burst: number
}

type Monotonic = Pick<Clock, 'monotonicMs'>

/** A shorter wait counts as none: it is a rounding error. */
const shortestWaitMs = 0.001

/**
 * Returns the milliseconds until a bucket has this many tokens. The time at which it will be full, `fullMs`,
 * is its whole state.
 */
function waitFor(tokens: number, rate: Rate, fullMs: number, nowMs: number): number {
  const waitMs = Math.max(fullMs, nowMs) - nowMs - ((rate.burst - tokens) * 1_000) / rate.perSecond
  return waitMs < shortestWaitMs ? 0 : waitMs
}

/**
 * Limits how often something happens by a bucket of tokens, as `rate.Limiter` of golang.org/x/time/rate does.
 */
export class RateLimiter {
  readonly #rate: Rate
  readonly #clock: Monotonic
  #fullMs = Number.NEGATIVE_INFINITY

  constructor(rate: Rate, clock: Monotonic) {
    this.#rate = rate
    this.#clock = clock
  }

  /**
   * Returns the milliseconds until `tryAcquire` can take this many tokens; 0 if it can now. Takes nothing.
   */
  waitMs(tokens = 1): number {
    return waitFor(tokens, this.#rate, this.#fullMs, this.#clock.monotonicMs())
  }

  /** Takes the tokens and returns true, or returns false and takes nothing if the bucket has too few. */
  tryAcquire(tokens = 1): boolean {
    const isAllowed = this.waitMs(tokens) === 0
    if (isAllowed) this.reserve(tokens)
    return isAllowed
  }

  /**
   * Takes the tokens even if the bucket does not have them yet, so that later calls wait longer. Returns the
   * milliseconds until it would have them; 0 if it has them now.
   */
  reserve(tokens = 1): number {
    const nowMs = this.#clock.monotonicMs()
    const waitMs = waitFor(tokens, this.#rate, this.#fullMs, nowMs)
    this.#fullMs = Math.max(this.#fullMs, nowMs) + (tokens * 1_000) / this.#rate.perSecond
    return waitMs
  }

  /**
   * Takes a token, and resolves when the bucket has it; calls are served in order. Rejects when the signal
   * aborts, and does not return the token.
   */
  async acquire(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const waitMs = this.reserve()
    if (waitMs > 0) await pause(waitMs, undefined, { signal })
  }
}

/**
 * The number of rows in the table of counters. A key has one counter in each row, and the counter that is
 * full soonest decides.
 */
const rows = 4
const countersOfRow = 8_192
const bytesOfIndex = 4

/**
 * Limits how often each key does something: each key has a bucket of `perMinute` tokens, which is refilled in
 * a minute.
 *
 * The counters are a count-min sketch, a table of 256 KiB that never grows. Keys may share counters: calls of
 * other keys lead to a rejection only if all counters of the key are shared with busy keys. A busy key is
 * never forgotten, however many keys there are. A random salt determines the counters of a key, so that no
 * client can choose them.
 */
export class KeyedRateLimiter {
  readonly #rate: Rate
  readonly #clock: Monotonic
  readonly #salt = randomBytes(16).toString('hex')
  /** For each counter, the time at which its bucket is full again. */
  readonly #fullMs = new Float64Array(rows * countersOfRow)

  constructor(perMinute: number, clock: Monotonic) {
    this.#rate = { perSecond: perMinute / 60, burst: perMinute }
    this.#clock = clock
  }

  /**
   * Takes a token of the key and returns 0, or takes nothing and returns the milliseconds until the key has
   * one.
   */
  take(key: string): number {
    const nowMs = this.#clock.monotonicMs()
    const counters = this.#findCounters(key)
    const waitMs = this.#waitMs(counters, nowMs)
    if (waitMs === 0) this.#raise(counters, Math.max(nowMs, this.#findFullMs(counters)) + this.#toMs(1))
    return waitMs
  }

  /** Returns the same number as `take` would, and takes nothing. */
  waitMs(key: string): number {
    return this.#waitMs(this.#findCounters(key), this.#clock.monotonicMs())
  }

  /** Leaves the key without a token for `waitMs`, however many tokens it has now. */
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
