import { hash, randomBytes } from 'node:crypto'
import type { Clock } from '../clock.ts'

/** How often each key may do something: a bucket of `perMinute` tokens, refilled at that rate. */
export interface RateLimit {
  /**
   * Counts one try of that key, unless it is refused.
   *
   * @returns 0 when it may happen, else in how many milliseconds the next may
   */
  take(key: string): number
  /** Returns the same as `take`, without counting. */
  waitOf(key: string): number
  /** Refuses the key for that time, independent of its count here. */
  block(key: string, waitMs: number): void
}

/** The table has this many rows. A key has one counter in each, and the smallest of them counts. */
const rows = 4
const countersOfRow = 8_192
const bytesOfIndex = 4

/**
 * The counters are a fixed table of 256 KiB, a count-min sketch: keys may share a counter, but a key is
 * refused for the calls of others only when it shares all of its counters with busy keys. So no number of
 * keys makes the table grow or forget a busy key. The places of a key depend on a random salt and cannot be
 * chosen from outside.
 */
export function createRateLimit(perMinute: number, clock: Clock): RateLimit {
  const salt = randomBytes(16).toString('hex')
  /** When the bucket of each counter is full again, in monotonic milliseconds. */
  const fullMs = new Float64Array(rows * countersOfRow)
  const tokenMs = 60_000 / perMinute

  function placesOf(key: string): readonly number[] {
    const digest = hash('sha256', salt + key, 'buffer')
    return Array.from({ length: rows }, (_, row) => {
      return row * countersOfRow + (digest.readUInt32LE(row * bytesOfIndex) % countersOfRow)
    })
  }

  const fullOf = (places: readonly number[]) => Math.min(...places.map(place => fullMs[place] ?? 0))
  const waitFrom = (full: number, nowMs: number) =>
    Math.max(0, Math.ceil(full - nowMs - (perMinute - 1) * tokenMs))
  const raise = (places: readonly number[], full: number) => {
    for (const place of places) fullMs[place] = Math.max(fullMs[place] ?? 0, full)
  }

  return {
    take(key) {
      const nowMs = clock.monotonicMs()
      const places = placesOf(key)
      const full = Math.max(nowMs, fullOf(places))
      const waitMs = waitFrom(full, nowMs)
      if (waitMs === 0) raise(places, full + tokenMs)
      return waitMs
    },
    waitOf: key => waitFrom(fullOf(placesOf(key)), clock.monotonicMs()),
    block(key, waitMs) {
      raise(placesOf(key), clock.monotonicMs() + waitMs + (perMinute - 1) * tokenMs)
    },
  }
}
