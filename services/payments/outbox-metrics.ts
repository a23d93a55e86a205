import { every, type Task } from './background.ts'
import type { Metrics } from './metrics.ts'
import type { Payments } from './operations/operation.ts'
import { type OutboxName, outboxes, readOutbox } from './storage/delivery/outboxes.ts'
import { countOpenExceptions } from './storage/delivery/processor-exceptions.ts'

const intervalMs = 15_000

/** All processes report the same numbers, because they read the same database. */
export function reportOutboxes(
  { storage, clock }: Pick<Payments, 'storage' | 'clock'>,
  metrics: Metrics,
): Task {
  const waiting = new Map<OutboxName, number>()
  const overdueSeconds = new Map<OutboxName, number>()
  const readAll = (figures: ReadonlyMap<OutboxName, number>) => () =>
    [...figures].map(([outbox, value]) => [{ outbox }, value] as const)
  metrics.gauge('payments_outbox_waiting', 'Messages that are not delivered yet.', readAll(waiting))
  metrics.gauge(
    'payments_outbox_overdue_seconds',
    'The time since the next message was due: 0 while a process delivers it.',
    readAll(overdueSeconds),
  )
  let exceptions = 0
  metrics.gauge(
    'payments_processor_exceptions',
    'Events of the processor that could not be booked and wait for an operator.',
    () => exceptions,
  )
  let isReachable = true
  metrics.gauge('payments_database_reachable', 'Whether the database answers.', () => (isReachable ? 1 : 0))
  return every(intervalMs, clock, async () => {
    try {
      for (const outbox of outboxes) {
        const state = await storage.read(tx => readOutbox(tx, outbox))
        const overdueMs = state.nextDueMs === null ? 0 : Math.max(0, clock.nowMs() - state.nextDueMs)
        waiting.set(outbox, Number(state.waiting))
        overdueSeconds.set(outbox, overdueMs / 1000)
      }
      exceptions = await storage.read(countOpenExceptions)
    } catch (error) {
      isReachable = false
      throw error
    }
    isReachable = true
    return false
  })
}
