import type { Dispute, DisputeStatus } from '../../domain/transaction/dispute.ts'
import { type ListPage, listOfMerchant, listPage, type PageQuery } from '../list-page.ts'
import type { Tx } from '../storage.ts'
import { instantColumn, nullableInstantColumn, type Row, Table, valueColumn } from '../table.ts'
import { fee } from './lines.ts'

const disputes = new Table('disputes', {
  merchantId: valueColumn<string>('merchant_id'),
  id: valueColumn<string>('id'),
  transactionId: valueColumn<string>('transaction_id'),
  createdMs: instantColumn('created'),
  amount: valueColumn<bigint>('amount'),
  currency: valueColumn<string>('currency'),
  status: valueColumn<DisputeStatus>('status'),
  reason: valueColumn<string | null>('reason'),
  dueMs: nullableInstantColumn('due'),
  held: valueColumn<bigint>('held'),
  excess: valueColumn<bigint>('excess'),
  excessHeld: valueColumn<bigint>('excess_held'),
  fee,
  lineId: valueColumn<string>('line_id'),
  resolvedMs: nullableInstantColumn('resolved'),
})

const insert = disputes.insertAtNextPosition()

/** Inserts a dispute. Locks the merchant's lists until the end of this database transaction. */
export async function insertDispute(tx: Tx, dispute: Dispute): Promise<void> {
  await tx.query(insert.sql, insert.values(dispute))
}

const update = disputes.update('status', 'resolvedMs')

/** Stores the outcome of a dispute. The caller must have locked the disputed transaction. */
export async function updateDispute(tx: Tx, dispute: Dispute): Promise<void> {
  await tx.query(update.sql, update.values(dispute))
}

/** Before resolving a dispute, lock the transaction with `lockTransaction` and read the dispute again. */
export const findDispute: (tx: Tx, id: string) => Promise<Dispute | undefined> = disputes.find

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
): Promise<ListPage<Dispute>> {
  return listPage(tx, ofMerchant, merchantId, page, { transaction_id: transactionId, status })
}
