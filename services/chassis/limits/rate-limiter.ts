import { hash, randomBytes } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '../clock.ts'

/** A bucket of `burst` tokens, which is full at first and refilled with `perSecond` tokens a second. */
interface Rate {
  readonly perSecond: number
  readonly burst: number
}

type Monotonic = Pick<Clock, 'monotonicMs'>

/** A shorter wait is an error of rounding. */
const shortestWaitMs = 0.001

/** Returns the milliseconds until the bucket, full at `fullMs`, has this many tokens. */
function waitFor(tokens: number, rate: Rate, fullMs: number, nowMs: number): number {
  const waitMs = Math.max(fullMs, nowMs) - nowMs - ((rate.burst - tokens) * 1_000) / rate.perSecond
  return waitMs < shortestWaitMs ? 0 : waitMs
}

/** Limits how often something happens, as `rate.Limiter` of golang.org/x/time/rate does. */
export class RateLimiter {
  readonly #rate: Rate
  readonly #clock: Monotonic
  #fullMs = Number.NEGATIVE_INFINITY

  constructor(rate: Rate, clock: Monotonic) {
    this.#rate = rate
    this.#clock = clock
  }

  /** Returns the milliseconds until `tryAcquire` succeeds. */
  waitMs(tokens = 1): number {
    return waitFor(tokens, this.#rate, this.#fullMs, this.#clock.monotonicMs())
  }

  /** Takes the tokens if they are there. */
  tryAcquire(tokens = 1): boolean {
    const isAllowed = this.waitMs(tokens) === 0
    if (isAllowed) this.reserve(tokens)
    return isAllowed
  }

  /** Takes the tokens, also those that are not there yet. Returns the milliseconds until they are. */
  reserve(tokens = 1): number {
    const nowMs = this.#clock.monotonicMs()
    const waitMs = waitFor(tokens, this.#rate, this.#fullMs, nowMs)
    this.#fullMs = Math.max(this.#fullMs, nowMs) + (tokens * 1_000) / this.#rate.perSecond
    return waitMs
  }

  /** Takes a token. Resolves, in the order of the calls, when it is there. Rejects when the signal aborts. */
  async acquire(signal: AbortSignal): Promise<void> {
    signal.throwIfAborted()
    const waitMs = this.reserve()
    if (waitMs > 0) await pause(waitMs, undefined, { signal })
  }
}

/** The table has this many rows. A key has one counter in each, and the smallest of them counts. */
const rows = 4
const countersOfRow = 8_192
const bytesOfIndex = 4

/**
 * Limits how often each key does something: a bucket of `perMinute` tokens a key, refilled at that rate.
 *
 * The counters are a fixed table of 256 KiB, a count-min sketch: keys may share a counter, but a key is
 * rejected for the calls of others only when it shares all of its counters with busy keys. So no number of
 * keys makes the table grow or forget a busy key. The counters of a key depend on a random salt and cannot be
 * chosen from outside.
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

  /** Takes a token of the key if there is one. Returns 0, or the milliseconds until there is one. */
  take(key: string): number {
    const nowMs = this.#clock.monotonicMs()
    const counters = this.#findCounters(key)
    const waitMs = this.#waitMs(counters, nowMs)
    if (waitMs === 0) this.#raise(counters, Math.max(nowMs, this.#findFullMs(counters)) + this.#toMs(1))
    return waitMs
  }

  /** Returns the same as `take`, and takes nothing. */
  waitMs(key: string): number {
    return this.#waitMs(this.#findCounters(key), this.#clock.monotonicMs())
  }

  /** Leaves the key without a token for that time, whatever it took here. */
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
