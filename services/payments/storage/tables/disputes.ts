import type { Dispute, DisputeStatus } from '../../domain/transaction/dispute.ts'
import { listOfMerchant, listPage, type Page, type PageQuery } from '../list-page.ts'
import type { Tx } from '../storage.ts'
import { column, instant, nullableInstant, type Row, Table } from '../table.ts'
import { fee } from './lines.ts'

const disputes = new Table('disputes', {
  merchantId: column<string>('merchant_id'),
  id: column<string>('id'),
  transactionId: column<string>('transaction_id'),
  createdMs: instant('created'),
  amount: column<bigint>('amount'),
  currency: column<string>('currency'),
  status: column<DisputeStatus>('status'),
  reason: column<string | null>('reason'),
  dueMs: nullableInstant('due'),
  held: column<bigint>('held'),
  excess: column<bigint>('excess'),
  excessHeld: column<bigint>('excess_held'),
  fee,
  lineId: column<string>('line_id'),
  resolvedMs: nullableInstant('resolved'),
})

const insert = disputes.insertAtNextPosition()

/** Holds the merchant's lists until this database transaction ends. */
export async function insertDispute(tx: Tx, dispute: Dispute): Promise<void> {
  await tx.query(insert.sql, insert.values(dispute))
}

const update = disputes.update('status', 'resolvedMs')

/** Stores how a dispute ended. The caller holds the lock of its transaction. */
export async function updateDispute(tx: Tx, dispute: Dispute): Promise<void> {
  await tx.query(update.sql, update.values(dispute))
}

/**
 * Returns a dispute. To resolve it, lock its transaction by `lockTransaction` first, and then read it again.
 */
export async function findDispute(tx: Tx, id: string): Promise<Dispute | undefined> {
  const [row] = await tx.query<Row>(`SELECT ${disputes.columns} FROM disputes WHERE id = $1`, [id])
  return row === undefined ? undefined : disputes.read(row)
}

export async function disputesOfTransactions(tx: Tx, ids: readonly string[]): Promise<readonly Dispute[]> {
  const sql = `SELECT ${disputes.columns} FROM disputes WHERE transaction_id = ANY ($1::uuid[])`
  return (await tx.query<Row>(sql, [ids])).map(disputes.read)
}

const ofMerchant = listOfMerchant(disputes)

interface DisputeFilters {
  readonly transactionId?: string | null
  readonly status?: DisputeStatus | null
}

export function listDisputes(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  { transactionId, status }: DisputeFilters = {},
): Promise<Page<Dispute>> {
  return listPage(tx, ofMerchant, merchantId, page, { transaction_id: transactionId, status })
}
