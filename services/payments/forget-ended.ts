import type { Task } from './background.ts'
import type { Payments } from './operations/operation.ts'
import { prunables, prune } from './storage/pruning.ts'

/** In one transaction, so that nobody waits for long. */
export const maxPrunedAtOnce = 500
const lookMs = 60_000

/**
 * Removes, each minute, what ended longer ago than `retentionMs`. Of several processes one does it at a time.
 */
export function forgetEnded(
  { storage, clock }: Pick<Payments, 'storage' | 'clock'>,
  retentionMs: number,
): Task {
  let nextMs = 0
  return async () => {
    const startMs = clock.monotonicMs()
    if (startMs < nextMs) return false
    const options = { untilMs: clock.nowMs() - retentionMs, limit: maxPrunedAtOnce }
    let hasMore = false
    for (const what of prunables) {
      const removed = await storage.transaction(tx => prune(tx, what, options))
      hasMore ||= removed === maxPrunedAtOnce
    }
    if (!hasMore) nextMs = startMs + lookMs
    return hasMore
  }
}
