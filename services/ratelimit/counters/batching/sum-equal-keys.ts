import { CountersError, maxCount } from '../counters.ts'
import type { PipelineCall, SendCalls } from './pipeline.ts'
import { createMissingAnswer, type Send } from './send.ts'
import type { TouchedKey, TouchedKeys } from './touched-keys.ts'

/** The command for one key, which counts one hit or several. */
export interface Increment {
  readonly key: string
  /** An integer from -(2^53-1) to 2^53-1; 0 only reads. */
  readonly by: number
  /** How long the counter is kept at least, and how much longer it may be kept. */
  readonly expirySeconds: number
  readonly jitterSeconds: number
  /** The state that this process keeps for the key. */
  readonly touched: TouchedKey
}

/** A counter's exact value after an increment. */
export type Count = number | bigint

/** The hits of one write, and the increment that includes each of them. */
interface Sums {
  readonly increments: readonly Increment[]
  /** The index of each hit's increment. */
  readonly incrementIndexes: readonly number[]
  /** The sum of each hit and of the hits before it in its increment. */
  readonly throughs: readonly number[]
}

/**
 * Sends calls as increments. Equal keys are summed into one increment, and each caller's value is derived
 * from its reply in the order of arrival, so that many callers of one key cost the backend as much as one.
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
 * Sums the hits of equal keys, with the longest of their expiries. A sum stays below 2^53: a hit that would
 * exceed it starts another increment, so that sums are exact and only the backend's limit applies to very
 * large hits.
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
      // The index may be from an earlier write, or of another key with the same hash.
      if (increment?.key !== key || increment.by > maxCount - hits) {
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
 * Returns the values right after each of `hits` hits, starting with the hit at index `from`. Returns the
 * error of the first hit that has one, and undefined when a count is missing.
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

/** Returns the counter right after the hit; `count` is its value after the whole sum. */
function valueAfter(count: Count, sum: number, through: number): number {
  if (typeof count === 'number' && count <= maxCount) return count - sum + through
  const value = BigInt(count) - BigInt(sum) + BigInt(through)
  return value > maxCount ? maxCount : Number(value)
}
