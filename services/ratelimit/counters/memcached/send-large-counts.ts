import { type CountersError, maxCount } from '../counters.ts'
import { type Again, sendAgain } from '../send.ts'
import type { Count, Increment } from '../sum-equal-keys.ts'
import type { SendCounts } from './send-counts.ts'

/** Smaller addends would have to be written billions of times to one key to exceed 64 bits. */
const largeHits = 2 ** 32

/**
 * Memcached counts in 64 bits, and beyond them begins again at 0. So a large addend looks first, and to a
 * counter that is at `maxCount` already it is not added: more than that is not told anyway. Only thousands of
 * the largest addends that all look before any of them is added could exceed 64 bits still.
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

/** The counters' values by their keys. Those that could not be looked at will not be counted either. */
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

/** Answers the large ones whose counter is full by then; all other places are still to be counted. */
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
