import type { MalformedEvent } from '../../processor/check-event.ts'
import type { AuthorisationAnswer, ProcessorEvent } from '../../processor/processor.ts'
import type { AnswerStore, EventJournal, KeptAnswer } from '../../processor/test-stores.ts'
import { onlyRow, type Storage, type Tx, toDate } from '../storage.ts'

/** An event as it is stored in JSON: `amount` is text, because JSON has no bigint. */
export type StoredEvent = Omit<ProcessorEvent | MalformedEvent, 'amount'> & { readonly amount?: string }

const insertEvents = `INSERT INTO test_processor_events (id, due, event)
  SELECT e.id, e.due, e.event FROM unnest($1::text[], $2::timestamptz[], $3::json[]) AS e (id, due, event)
  ON CONFLICT (id) DO NOTHING`

/** Stores future events of the test processor, so that they survive a restart. */
export function createStoredJournal(storage: Storage): EventJournal {
  return {
    async append(events) {
      if (events.length === 0) return
      const params = [
        events.map(({ event }) => event.id),
        events.map(({ dueMs }) => toDate(dueMs).toISOString()),
        events.map(({ event }) => serialiseEvent(event)),
      ]
      await storage.transaction(tx => tx.query(insertEvents, params))
    },

    async due(nowMs, limit) {
      const rows = await storage.transaction(tx =>
        tx.query<{ event: StoredEvent }>(
          'SELECT event FROM test_processor_events WHERE NOT told AND due <= $1 ORDER BY due LIMIT $2',
          [toDate(nowMs), limit],
        ),
      )
      return rows.map(({ event }) => parseStoredEvent(event) as ProcessorEvent)
    },

    async remove(eventIds) {
      await storage.transaction(tx =>
        tx.query('UPDATE test_processor_events SET told = true WHERE id = ANY ($1::text[])', [eventIds]),
      )
    },
  }
}

export function serialiseEvent(event: ProcessorEvent | MalformedEvent): string {
  return JSON.stringify(event, (_, value) => (typeof value === 'bigint' ? String(value) : value))
}

export function parseStoredEvent({ amount, ...event }: StoredEvent): ProcessorEvent | MalformedEvent {
  return (amount === undefined ? event : { ...event, amount: BigInt(amount) }) as ProcessorEvent
}

const insertAnswer = `INSERT INTO test_processor_answers AS a (operation_id, approved, answer, created, cancelled)
  VALUES ($1, $2, $3, $4, $5) ON CONFLICT (operation_id) DO UPDATE
  SET cancelled = coalesce(a.cancelled, excluded.cancelled)
  RETURNING a.answer, a.cancelled IS NOT NULL AS cancelled`

async function put(
  tx: Tx,
  operationId: string,
  answer: AuthorisationAnswer,
  { nowMs, cancelled }: { readonly nowMs: number; readonly cancelled: boolean },
): Promise<KeptAnswer> {
  const now = toDate(nowMs)
  const values = [operationId, answer.approved, JSON.stringify(answer), now, cancelled ? now : null]
  return onlyRow(await tx.query<KeptAnswer>(insertAnswer, values))
}

/** Stores the answers of the test processor, which contain no card number and no verification code. */
export function createStoredAnswers(storage: Storage): AnswerStore {
  return {
    keep: (operationId, answer, nowMs) =>
      storage.transaction(tx => put(tx, operationId, answer, { nowMs, cancelled: false })),
    cancel: (operationId, declined, nowMs) =>
      storage.transaction(tx => put(tx, operationId, declined, { nowMs, cancelled: true })),
  }
}
