import type { Task } from './background.ts'
import type { Payments } from './operations/operation.ts'
import { prunables, prune } from './storage/pruning.ts'

/** The maximum number of rows that one transaction deletes, so that other transactions wait only briefly. */
const maxPrunedAtOnce = 500
const lookMs = 60_000

interface Retention {
  /** How long mails, deliveries and all other prunable rows except events are kept. */
  readonly deliveryMs: number
  /** How long events are kept. */
  readonly eventMs: number
}

/**
 * Returns a task that deletes, every minute, the rows whose retention is over; see `prune`. Only one process
 * deletes at a time.
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
