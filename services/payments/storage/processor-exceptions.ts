import type { ProcessorEvent } from '../processor/processor.ts'
import { toDate } from './statements.ts'
import { onlyRow, type Tx } from './storage.ts'
import { parseEvent, type StoredEvent, serialiseEvent } from './stored-journal.ts'

/** An event of the processor that could not be booked. */
export interface ProcessorException {
  readonly id: string
  /** Whether it is of the processor of test accounts. */
  readonly test: boolean
  readonly event: ProcessorEvent
  readonly outcome: ExceptionOutcome
  readonly reason: string
}

/**
 * - `unknown`: there is no transaction, or no dispute, of the event's reference.
 * - `refused`: the event contradicts the books.
 * - `failed`: the database refused it, or the program met a defect.
 */
export type ExceptionOutcome = 'unknown' | 'refused' | 'failed'

export interface OpenException extends ProcessorException {
  readonly createdMs: number
}

const insert = `INSERT INTO processor_exceptions (id, event_id, test, event, outcome, reason, created)
  VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (test, event_id) DO NOTHING`

/** Stores an event that could not be booked; one that is stored already stays as it is. */
export async function insertException(
  tx: Tx,
  { id, test, event, outcome, reason }: ProcessorException,
  nowMs: number,
): Promise<void> {
  const values = [withoutNul(event.id), test, serialiseEvent(event), outcome, withoutNul(reason)]
  await tx.query(insert, [id, ...values, toDate(nowMs)])
}

/** PostgreSQL refuses the zero character in text. */
function withoutNul(text: string): string {
  return text.replaceAll('\0', '\ufffd')
}

interface ExceptionRow {
  readonly id: string
  readonly test: boolean
  readonly event: StoredEvent
  readonly outcome: ExceptionOutcome
  readonly reason: string
  readonly created: Date
}

const select =
  'SELECT id, test, event, outcome, reason, created FROM processor_exceptions WHERE closed IS NULL'

function exceptionOf({ event, created, ...rest }: ExceptionRow): OpenException {
  return { ...rest, event: parseEvent(event), createdMs: created.getTime() }
}

/** Exceptions that are not closed, the oldest first. */
export async function listOpenExceptions(tx: Tx, limit: number): Promise<readonly OpenException[]> {
  return (await tx.query<ExceptionRow>(`${select} ORDER BY created, id LIMIT $1`, [limit])).map(exceptionOf)
}

/** Locks it until this database transaction ends. Undefined for one that is closed or unknown. */
export async function lockOpenException(tx: Tx, id: string): Promise<OpenException | undefined> {
  const [row] = await tx.query<ExceptionRow>(`${select} AND id = $1 FOR UPDATE`, [id])
  return row && exceptionOf(row)
}

export async function closeException(tx: Tx, id: string, note: string, nowMs: number): Promise<void> {
  await tx.query('UPDATE processor_exceptions SET closed = $2, note = $3 WHERE id = $1', [
    id,
    toDate(nowMs),
    note,
  ])
}

export async function countOpenExceptions(tx: Tx): Promise<number> {
  const sql = 'SELECT count(*) AS open FROM processor_exceptions WHERE closed IS NULL'
  return Number(onlyRow(await tx.query<{ open: bigint }>(sql)).open)
}
