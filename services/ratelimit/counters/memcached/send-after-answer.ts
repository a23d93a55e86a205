import type { Count, Increment } from '../batching/sum-equal-keys.ts'
import { CountersError, maxCount } from '../counters.ts'
import type { SendCounts } from './send-counts.ts'

/** Called with the number of hits that could not be counted after their callers were answered, and why. */
export type OnUncounted = (hits: number, problem: string) => void

/**
 * Counts as envoyproxy/ratelimit does: reads the counters, answers with the values that they will have if no
 * other caller counts, and counts afterwards. Callers that arrive at the same moment, from other processes or
 * turns of the event loop, do not see each other, so a limit may be exceeded. Hits whose counter could not be
 * read are not counted.
 */
export function createAfterAnswerSender(
  look: SendCounts,
  count: SendCounts,
  onUncounted: OnUncounted,
): SendCounts {
  return (items, onAnswers) => {
    look(items, (looked, problem) => {
      const found: Increment[] = []
      const answers = looked.map((before, index) => {
        const item = items[index]
        if (before instanceof CountersError || item === undefined || item.by === 0) return before
        found.push(item)
        return sum(before, item.by)
      })
      onAnswers(answers, problem)
      if (found.length > 0) countLater(found)
    })
  }

  function countLater(items: readonly Increment[]): void {
    count(items, (counts, problem) => {
      let hits = 0
      let reason = problem ?? ''
      for (const [index, { by }] of items.entries()) {
        const outcome = counts[index]
        if (outcome instanceof CountersError) reason = outcome.message
        else if (outcome !== undefined) continue
        hits += by
      }
      if (hits > 0) onUncounted(hits, reason)
    })
  }
}

function sum(before: Count, by: number): Count {
  if (typeof before === 'number' && before <= maxCount - by) return Math.max(0, before + by)
  return BigInt(before) + BigInt(by)
}
