import type { MalformedEvent } from '../../processor/check-event.ts'
import type { ProcessorEvent } from '../../processor/processor.ts'
import { onlyRow, type Tx, toDate } from '../storage.ts'
import { instantColumn, type Row, Table, type TableField, valueColumn } from '../table.ts'
import { parseStoredEvent, type StoredEvent, serialiseEvent } from './test-processor-stores.ts'

/** An event of the processor that was not booked. */
export interface ProcessorException {
  readonly id: string
  /** Whether the event comes from the processor of test merchants. */
  readonly test: boolean
  readonly event: ProcessorEvent | MalformedEvent
  readonly outcome: StoredOutcome
  readonly reason: string
}

/**
 * - `waiting`: the event depends on a record that may not be booked yet. The service tries it again.
 * - The other outcomes are exceptions, which an operator handles. `unknown`: no transaction or dispute has
 *   the reference of the event. `refused`: the event contradicts the books. `failed`: the database rejected
 *   the event, or the program has a defect. `malformed`: the event is invalid.
 */
export const storedOutcomes = ['waiting', 'unknown', 'refused', 'failed', 'malformed'] as const
export type StoredOutcome = (typeof storedOutcomes)[number]

export interface OpenException extends ProcessorException {
  readonly createdMs: number
}

const event: TableField<ProcessorException['event']> = {
  columns: ['event'],
  write: value => [serialiseEvent(value)],
  read: row => parseStoredEvent(row['event'] as StoredEvent),
}

const exceptions = new Table('processor_exceptions', {
  id: valueColumn<string>('id'),
  test: valueColumn<boolean>('test'),
  event,
  outcome: valueColumn<StoredOutcome>('outcome'),
  reason: valueColumn<string>('reason'),
  createdMs: instantColumn('created'),
})
const insert = exceptions.insert(['event_id', 'due'])
const insertNew = `${insert.sql} ON CONFLICT (test, event_id) DO NOTHING RETURNING id`

/** A `waiting` event is due at once. @returns false, and changes nothing, if the event was stored before */
export async function insertException(
  tx: Tx,
  exception: ProcessorException,
  nowMs: number,
): Promise<boolean> {
  const stored = { ...exception, reason: withoutNul(exception.reason), createdMs: nowMs }
  const due = exception.outcome === 'waiting' ? toDate(nowMs) : null
  const rows = await tx.query(insertNew, [...insert.values(stored), exception.event.id, due])
  return rows.length > 0
}

/** Replaces the character U+0000, which error messages can contain and PostgreSQL rejects. */
function withoutNul(text: string): string {
  return text.replaceAll('\0', '\ufffd')
}

const select = `SELECT ${exceptions.columns} FROM processor_exceptions WHERE closed IS NULL`

/** Returns the exceptions that are not closed, without `waiting` events, the oldest first. */
export async function listOpenExceptions(tx: Tx, limit: number): Promise<readonly OpenException[]> {
  const sql = `${select} AND outcome <> 'waiting' ORDER BY created, id LIMIT $1`
  return (await tx.query<Row>(sql, [limit])).map(exceptions.read)
}

interface WaitingEvent {
  readonly id: string
  readonly event: ProcessorEvent
  /** When the event was stored, in milliseconds since the epoch. */
  readonly createdMs: number
}

// The wait until the next attempt equals the age of the event, but at least 1 second and at most 1 minute.
const claimWaiting = `UPDATE processor_exceptions
  SET due = $2::timestamptz + least(greatest($2::timestamptz - created, interval '1 s'), interval '1 min')
  WHERE id IN (
    SELECT id FROM processor_exceptions
    WHERE closed IS NULL AND outcome = 'waiting' AND due <= $2 AND test = $1
    ORDER BY due LIMIT $3 FOR UPDATE SKIP LOCKED
  )
  RETURNING id, event, created`

interface WaitingRow {
  readonly id: string
  readonly event: StoredEvent
  readonly created: Date
}

export async function claimWaitingEvents(
  tx: Tx,
  test: boolean,
  nowMs: number,
  limit: number,
): Promise<readonly WaitingEvent[]> {
  const rows = await tx.query<WaitingRow>(claimWaiting, [test, toDate(nowMs), limit])
  return rows.map(({ id, event, created }) => ({
    id,
    // Malformed events never wait.
    event: parseStoredEvent(event) as ProcessorEvent,
    createdMs: created.getTime(),
  }))
}

/** Turns a waiting event into an exception, which ends the attempts to book the event. */
export async function updateOutcome(
  tx: Tx,
  id: string,
  { outcome, reason }: Pick<ProcessorException, 'outcome' | 'reason'>,
): Promise<void> {
  const sql = 'UPDATE processor_exceptions SET outcome = $2, reason = $3, due = NULL WHERE id = $1'
  await tx.query(sql, [id, outcome, withoutNul(reason)])
}

/** Locks the exception until this transaction ends; undefined if it is closed or does not exist. */
export async function lockOpenException(tx: Tx, id: string): Promise<OpenException | undefined> {
  const [row] = await tx.query<Row>(`${select} AND id = $1 FOR UPDATE`, [id])
  return row && exceptions.read(row)
}

export async function closeException(tx: Tx, id: string, note: string, nowMs: number): Promise<void> {
  await tx.query('UPDATE processor_exceptions SET closed = $2, note = $3 WHERE id = $1', [
    id,
    toDate(nowMs),
    note,
  ])
}

export async function countOpenExceptions(tx: Tx): Promise<number> {
  const sql = `SELECT count(*) AS open FROM processor_exceptions
    WHERE closed IS NULL AND outcome <> 'waiting'`
  return Number(onlyRow(await tx.query<{ open: bigint }>(sql)).open)
}
