import type { TrailEntry } from '../../domain/transaction/trail.ts'
import type { Transaction } from '../../domain/transaction/transaction.ts'
import { byIndex, type Tx, toDate } from '../storage.ts'
import { type Row, Table, valueColumn } from '../table.ts'

/** An instruction to the processor to carry out a capture, refund or void. It is sent at least once. */
export interface ProcessorInstruction {
  readonly transactionId: string
  /** The position of the operation's entry in the trail of the transaction, from 0. */
  readonly number: number
  /** The id of the trail entry, by which the processor recognises a repeated attempt. */
  readonly operationId: string
  readonly kind: 'capture' | 'refund' | 'void'
  readonly test: boolean
  /** The processor's reference of the authorisation. */
  readonly reference: string
  readonly amount: bigint
  readonly currency: string
  /** The number of attempts, including the current one. */
  readonly attempts: number
}

const instructions = new Table('processor_instructions', {
  transactionId: valueColumn<string>('transaction_id'),
  number: valueColumn<number>('number'),
  operationId: valueColumn<string>('operation_id'),
  kind: valueColumn<ProcessorInstruction['kind']>('kind'),
  test: valueColumn<boolean>('test'),
  reference: valueColumn<string>('reference'),
  amount: valueColumn<bigint>('amount'),
  currency: valueColumn<string>('currency'),
})
const insert = instructions.insert(['due'])

/**
 * Enqueues the instruction for the newest trail entry of the transaction, due at once. Disputes need no
 * instruction, and neither do declined transactions, which have no reference of the processor.
 */
export function insertInstruction(tx: Tx, transaction: Transaction, entry: TrailEntry): void {
  const { id, test, processorReference, currency, totals } = transaction
  if (entry.kind === 'dispute' || processorReference === null) return
  const instruction = {
    transactionId: id,
    number: totals.entries - 1,
    operationId: entry.id,
    kind: entry.kind,
    test,
    reference: processorReference,
    amount: entry.amount,
    currency,
  }
  tx.send(insert.sql, [...insert.values(instruction), toDate(entry.createdMs)])
}

const claimDue = `UPDATE processor_instructions SET attempts = attempts + 1, due = $2
  WHERE (transaction_id, number) IN (
    SELECT i.transaction_id, i.number FROM processor_instructions i
    WHERE i.due <= $1 AND NOT EXISTS (
      SELECT FROM processor_instructions earlier
      WHERE earlier.transaction_id = i.transaction_id AND earlier.number < i.number ${byIndex}
    )
    ORDER BY i.due LIMIT $3 FOR UPDATE OF i SKIP LOCKED
  )
  RETURNING ${instructions.columns}, attempts`

/**
 * Claims due instructions: no other process gets them before `leaseUntilMs`. Of each transaction, only the
 * first remaining one is claimed, so that the processor gets them in order.
 */
export async function claimDueInstructions(
  tx: Tx,
  nowMs: number,
  leaseUntilMs: number,
  limit: number,
): Promise<readonly ProcessorInstruction[]> {
  const rows = await tx.query<Row & { readonly attempts: number }>(claimDue, [
    toDate(nowMs),
    toDate(leaseUntilMs),
    limit,
  ])
  return rows.map(row => ({ ...instructions.read(row), attempts: row.attempts }))
}

type InstructionId = Pick<ProcessorInstruction, 'transactionId' | 'number'>

export async function removeInstructions(tx: Tx, acknowledged: readonly InstructionId[]): Promise<void> {
  await tx.query(
    `DELETE FROM processor_instructions
     WHERE (transaction_id, number) IN (SELECT * FROM unnest($1::uuid[], $2::int[]))`,
    [
      acknowledged.map(({ transactionId }) => transactionId),
      acknowledged.map(({ number }) => String(number)),
    ],
  )
}

/** @param dueMs the time of the next attempt */
export async function postponeInstruction(
  tx: Tx,
  { transactionId, number }: InstructionId,
  dueMs: number,
): Promise<void> {
  await tx.query('UPDATE processor_instructions SET due = $3 WHERE transaction_id = $1 AND number = $2', [
    transactionId,
    number,
    toDate(dueMs),
  ])
}

export async function findTransactionId(
  tx: Tx,
  reference: string,
  test: boolean,
): Promise<string | undefined> {
  const [row] = await tx.query<{ id: string }>(
    'SELECT id FROM transactions WHERE processor_reference = $1 AND test = $2 ORDER BY id LIMIT 1',
    [reference, test],
  )
  return row?.id
}
