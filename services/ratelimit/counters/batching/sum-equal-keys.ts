import { CountersError, maxCount } from '../counters.ts'
import type { PipelineCall, SendCalls } from './pipeline.ts'
import { createMissingAnswer, type Send } from './send.ts'
import type { TouchedKey, TouchedKeys } from './touched-keys.ts'

/** The sum of one or more hits of a key, sent as one command. */
export interface Increment {
  readonly key: string
  /** An integer from -(2^53-1) to 2^53-1; 0 only reads. */
  readonly by: number
  /** The counter is kept for at least `expirySeconds`, and for up to `jitterSeconds` more. */
  readonly expirySeconds: number
  readonly jitterSeconds: number
  readonly touched: TouchedKey
}

/** A counter's exact value after an increment. */
export type Count = number | bigint

interface Sums {
  readonly increments: readonly Increment[]
  readonly incrementIndexes: readonly number[]
  /** For each hit, the sum of the hits in its increment up to and including it. */
  readonly throughs: readonly number[]
}

/**
 * Sends the hits of calls as increments: hits of equal keys are summed into one, so many callers of one key
 * cost the backend as much as one. The value after each hit is derived from the reply to its increment, as if
 * the hits were added one by one in the order of arrival.
 */
export function sendSums(send: Send<Increment, Count>, touchedKeys: TouchedKeys): SendCalls {
  return (calls, onAnswers) => {
    const sums = sumEqualKeys(calls, touchedKeys)
    send(sums.increments, (counts, problem) => {
      onAnswers((index, from) => {
        const hits = calls[index]?.batch.length ?? 0
        return collectValues(sums, from, hits, counts) ?? createMissingAnswer(problem)
      })
    })
  }
}

type Mutable<T> = { -readonly [P in keyof T]: T[P] }

/**
 * Sums the hits of equal keys and gives each sum the longest of their expiries. A sum stays below 2^53: a hit
 * that would exceed it starts another increment, so that sums are exact and very large hits are limited only
 * by the backend.
 */
function sumEqualKeys(calls: readonly PipelineCall[], touchedKeys: TouchedKeys): Sums {
  const increments: Mutable<Increment>[] = []
  const incrementIndexes: number[] = []
  const throughs: number[] = []
  for (const { batch } of calls) {
    for (const { key, hits, expirySeconds, jitterSeconds = 0 } of batch) {
      const touched = touchedKeys.of(key)
      let incrementIndex = touched.incrementIndex
      let increment = increments[incrementIndex]
      // The remembered index may be from an earlier write, or from another key with the same hash. Hits that
      // are given back are not summed, because the counter stops at 0.
      if (increment?.key !== key || increment.by > maxCount - hits || hits < 0 || increment.by < 0) {
        incrementIndex = increments.length
        touched.incrementIndex = incrementIndex
        increment = { key, by: 0, expirySeconds, jitterSeconds, touched }
        increments.push(increment)
      }
      increment.by += hits
      if (increment.expirySeconds < expirySeconds) {
        increment.expirySeconds = expirySeconds
        increment.jitterSeconds = jitterSeconds
      }
      incrementIndexes.push(incrementIndex)
      throughs.push(increment.by)
    }
  }
  return { increments, incrementIndexes, throughs }
}

/**
 * Returns the value right after each of the `hits` hits from index `from` on. If the increment of one of them
 * failed, returns that error; if a count is missing, undefined.
 */
function collectValues(
  sums: Sums,
  from: number,
  hits: number,
  counts: readonly (Count | CountersError)[],
): readonly number[] | CountersError | undefined {
  const { increments, incrementIndexes, throughs } = sums
  const values: number[] = []
  for (let index = from; index < from + hits; index += 1) {
    const incrementIndex = incrementIndexes[index] ?? -1
    const count = counts[incrementIndex]
    if (count === undefined || count instanceof CountersError) return count
    values.push(valueAfter(count, increments[incrementIndex]?.by ?? 0, throughs[index] ?? 0))
  }
  return values
}

/**
 * Returns the counter's value right after a hit, at most `maxCount`. `count` is the value after the whole
 * increment, `sum` the hits of that increment, and `through` its hits up to and including this hit.
 */
function valueAfter(count: Count, sum: number, through: number): number {
  if (typeof count === 'number' && count <= maxCount) return count - sum + through
  const value = BigInt(count) - BigInt(sum) + BigInt(through)
  return value > maxCount ? maxCount : Number(value)
}
