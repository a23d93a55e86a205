import { CountersError, maxCount } from './counters.ts'
import type { Call, SendCalls } from './pipeline.ts'
import { missingAnswer, type Send } from './send.ts'
import type { TouchedKey, TouchedKeys } from './touched-keys.ts'

/** What goes to the backend for one key; it stands for one hit or for several. */
export interface Increment {
  readonly key: string
  /** Whole, up to 2^53-1; 0 only looks. */
  readonly by: number
  /** How long the counter is kept at least, and how much longer it may be kept. */
  readonly expirySeconds: number
  readonly jitterSeconds: number
  /** What is known of the key. */
  readonly touched: TouchedKey
}

/** A counter's exact value after an increment. */
export type Count = number | bigint

/** Hits that go into one write, and where each of them has gone. */
interface Sums {
  readonly increments: readonly Increment[]
  /** The increment that each hit is part of, by its place. */
  readonly places: readonly number[]
  /** Each hit's amount and those before it in its increment. */
  readonly throughs: readonly number[]
}

/**
 * Sends calls as increments. Equal keys are summed into one, and each caller's own value is derived from its
 * reply in the order of arrival, so that many callers of one key cost the backend as much as one.
 */
export function sendSums(send: Send<Increment, Count>, touchedKeys: TouchedKeys): SendCalls {
  return (calls, onAnswers) => {
    const sums = sumEqualKeys(calls, touchedKeys)
    send(sums.increments, (counts, problem) => {
      onAnswers((index, from) => {
        const hits = calls[index]?.batch.length ?? 0
        return valuesOf(sums, from, hits, counts) ?? missingAnswer(problem)
      })
    })
  }
}

type Mutable<T> = { -readonly [P in keyof T]: T[P] }

/**
 * Sums the hits of equal keys, with the longest of their expiries. A sum stays below 2^53: a hit that would
 * exceed it starts another one, so that sums are exact, and very large hits meet the backend's own limit
 * alone.
 */
function sumEqualKeys(calls: readonly Call[], touchedKeys: TouchedKeys): Sums {
  const increments: Mutable<Increment>[] = []
  const places: number[] = []
  const throughs: number[] = []
  for (const { batch } of calls) {
    for (const { key, hits, expirySeconds, jitterSeconds = 0 } of batch) {
      const touched = touchedKeys.of(key)
      let place = touched.place
      let increment = increments[place]
      // The place may be one of an earlier write, or of another key with the same hash.
      if (increment?.key !== key || increment.by > maxCount - hits) {
        place = increments.length
        touched.place = place
        increment = { key, by: 0, expirySeconds, jitterSeconds, touched }
        increments.push(increment)
      }
      increment.by += hits
      if (increment.expirySeconds < expirySeconds) {
        increment.expirySeconds = expirySeconds
        increment.jitterSeconds = jitterSeconds
      }
      places.push(place)
      throughs.push(increment.by)
    }
  }
  return { increments, places, throughs }
}

/**
 * The values right after each of the hits from one place among all on, given the counts after the increments;
 * the error of the first hit that has one, and undefined when a count is missing.
 */
function valuesOf(
  sums: Sums,
  from: number,
  hits: number,
  counts: readonly (Count | CountersError)[],
): readonly number[] | CountersError | undefined {
  const { increments, places, throughs } = sums
  const values: number[] = []
  for (let index = from; index < from + hits; index += 1) {
    const place = places[index] ?? -1
    const count = counts[place]
    if (count === undefined || count instanceof CountersError) return count
    values.push(valueAfter(count, increments[place]?.by ?? 0, throughs[index] ?? 0))
  }
  return values
}

/** The counter right after the hit; `count` is its value after the whole sum. */
function valueAfter(count: Count, sum: number, through: number): number {
  if (typeof count === 'number' && count <= maxCount) return count - sum + through
  const value = BigInt(count) - BigInt(sum) + BigInt(through)
  return value > maxCount ? maxCount : Number(value)
}
