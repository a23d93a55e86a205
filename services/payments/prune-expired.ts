import type { Task } from './background.ts'
import type { Payments } from './operations/operation.ts'
import { prunables, prune } from './storage/pruning.ts'

/** The most rows that one transaction removes, so that other transactions wait only briefly. */
const maxPrunedAtOnce = 500
const lookMs = 60_000

interface Retention {
  /** The retention of mail and deliveries. */
  readonly deliveryMs: number
  /** The retention of the log of events. */
  readonly eventMs: number
}

/**
 * Removes each minute the rows that ended longer ago than their retention. Only one process removes at a
 * time.
 */
export function pruneExpired(
  { storage, clock }: Pick<Payments, 'storage' | 'clock'>,
  { deliveryMs, eventMs }: Retention,
): Task {
  let nextMs = 0
  return async () => {
    const startMs = clock.monotonicMs()
    if (startMs < nextMs) return false
    let hasMore = false
    for (const what of prunables) {
      const retentionMs = what === 'events' ? eventMs : deliveryMs
      const options = { untilMs: clock.nowMs() - retentionMs, limit: maxPrunedAtOnce }
      const removed = await storage.transaction(tx => prune(tx, what, options))
      hasMore ||= removed === maxPrunedAtOnce
    }
    if (!hasMore) nextMs = startMs + lookMs
    return hasMore
  }
}
