import { type Again, sendAgain } from '../batching/send.ts'
import type { Count, Increment } from '../batching/sum-equal-keys.ts'
import { type CountersError, maxCount } from '../counters.ts'
import type { SendCounts } from './send-counts.ts'

/** Smaller addends would have to be added to one key billions of times to exceed 64 bits. */
const largeHits = 2 ** 32

/**
 * Memcached counts in 64 bits and wraps around to 0. A large addend therefore reads first, and is not added
 * to a counter that has reached `maxCount`, beyond which no value is reported. Only thousands of the largest
 * addends that all read before any of them is added could still exceed 64 bits.
 */
export function createLargeCountSender(look: SendCounts, count: SendCounts): SendCounts {
  return (items, onAnswers) => {
    const large = items.filter(({ by }) => by >= largeHits)
    if (large.length === 0) {
      count(items, onAnswers)
      return
    }
    look(large, looked => {
      const { answers, places } = answerFull(items, beforesOf(large, looked))
      const part: Again<Increment, Count> = { places, send: count }
      sendAgain(items, answers, [part], all => onAnswers(all, undefined))
    })
  }
}

/** Returns the counters' values by key. Counters that could not be read cannot be incremented either. */
function beforesOf(
  large: readonly Increment[],
  looked: readonly (Count | CountersError)[],
): Map<string, bigint> {
  const befores = new Map<string, bigint>()
  for (const [index, { key }] of large.entries()) {
    const count = looked[index]
    befores.set(key, typeof count === 'number' || typeof count === 'bigint' ? BigInt(count) : 0n)
  }
  return befores
}

/** Answers the large increments whose counter is full; the increments at `places` are still to be counted. */
function answerFull(items: readonly Increment[], values: Map<string, bigint>) {
  const answers: bigint[] = []
  const places: number[] = []
  for (const [place, { key, by }] of items.entries()) {
    const before = values.get(key) ?? 0n
    const value = before + BigInt(by)
    answers.push(value)
    if (by >= largeHits && before >= maxCount) continue
    places.push(place)
    if (values.has(key)) values.set(key, value)
  }
  return { answers, places }
}
