import { CountersError, type Hit, maxCount } from './counters.ts'
import type { TouchedKey, TouchedKeys } from './touched-keys.ts'

/** What goes to the backend for one key; it stands for one hit or for several. */
export interface Increment {
  readonly key: string
  /** Whole, up to 2^53-1; 0 only looks. */
  readonly by: number
  readonly expirySeconds: number
  /** What is known of the key. */
  readonly touched: TouchedKey
}

/** The counter's exact value after an increment, or why there is none. */
export type IncrementReply = number | bigint | CountersError

/** Hits that go into one write, and where each of them has gone. */
export interface Sums {
  readonly increments: readonly Increment[]
  /** The increment that each hit is part of, by its place. */
  readonly places: readonly number[]
  /** Each hit's amount and those before it in its increment. */
  readonly throughs: readonly number[]
}

type Mutable<T> = { -readonly [P in keyof T]: T[P] }

/**
 * Sums the hits of equal keys, with the longest of their expiries. A sum stays below 2^53: a hit that would
 * exceed it starts another one, so that sums are exact, and very large hits meet the backend's own limit
 * alone.
 */
export function sumEqualKeys(
  calls: readonly { readonly batch: readonly Hit[] }[],
  touchedKeys: TouchedKeys,
): Sums {
  const increments: Mutable<Increment>[] = []
  const places: number[] = []
  const throughs: number[] = []
  for (const { batch } of calls) {
    for (const { key, hits, expirySeconds } of batch) {
      const touched = touchedKeys.of(key)
      let increment = increments[touched.place]
      // The place may be one of an earlier write.
      if (increment?.touched !== touched || increment.by > maxCount - hits) {
        touched.place = increments.length
        increment = { key, by: 0, expirySeconds, touched }
        increments.push(increment)
      }
      increment.by += hits
      if (increment.expirySeconds < expirySeconds) increment.expirySeconds = expirySeconds
      places.push(touched.place)
      throughs.push(increment.by)
    }
  }
  return { increments, places, throughs }
}

/**
 * The values right after each of the hits from one place among all on, given the replies to the increments;
 * the error of the first hit that has one, and undefined when a reply is missing.
 */
export function valuesOf(
  sums: Sums,
  from: number,
  count: number,
  replies: readonly IncrementReply[],
): readonly number[] | CountersError | undefined {
  const { increments, places, throughs } = sums
  const values: number[] = []
  for (let index = from; index < from + count; index += 1) {
    const place = places[index] ?? -1
    const reply = replies[place]
    if (reply === undefined || reply instanceof CountersError) return reply
    values.push(valueAfter(reply, increments[place]?.by ?? 0, throughs[index] ?? 0))
  }
  return values
}

/** The counter right after the hit; `reply` is its value after the whole sum. */
function valueAfter(reply: number | bigint, sum: number, through: number): number {
  if (typeof reply === 'number' && reply <= maxCount) return reply - sum + through
  const value = BigInt(reply) - BigInt(sum) + BigInt(through)
  return value > maxCount ? maxCount : Number(value)
}
