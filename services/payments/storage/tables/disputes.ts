import type { Dispute, DisputeStatus } from '../../domain/transaction/dispute.ts'
import { type ListSource, listPage, type Page, type PageQuery } from '../list-page.ts'
import { insertAtNextPosition, toDate, toDateOrNull, toMsOrNull } from '../sql-statements.ts'
import type { Tx } from '../storage.ts'

interface DisputeRow {
  readonly id: string
  readonly merchant_id: string
  readonly transaction_id: string
  readonly created: Date
  readonly amount: bigint
  readonly currency: string
  readonly status: DisputeStatus
  readonly reason: string | null
  readonly due: Date | null
  readonly held: bigint
  readonly excess: bigint
  readonly excess_held: bigint
  readonly fee_flat: bigint
  readonly fee_rate: bigint
  readonly line_id: string
  readonly resolved: Date | null
}

const columns = [
  'merchant_id',
  'id',
  'transaction_id',
  'created',
  'amount',
  'currency',
  'status',
  'reason',
  'due',
  'held',
  'excess',
  'excess_held',
  'fee_flat',
  'fee_rate',
  'line_id',
  'resolved',
]

function disputeOf(row: DisputeRow): Dispute {
  const { id, amount, currency, status, reason, held, excess } = row
  return {
    id,
    merchantId: row.merchant_id,
    transactionId: row.transaction_id,
    createdMs: row.created.getTime(),
    amount,
    currency,
    status,
    reason,
    dueMs: toMsOrNull(row.due),
    held,
    excess,
    excessHeld: row.excess_held,
    fee: { flat: row.fee_flat, rate: row.fee_rate, total: row.fee_flat + row.fee_rate },
    lineId: row.line_id,
    resolvedMs: toMsOrNull(row.resolved),
  }
}

const insert = insertAtNextPosition('disputes', columns)

/** Holds the merchant's lists until this database transaction ends. */
export async function insertDispute(tx: Tx, dispute: Dispute): Promise<void> {
  await tx.query(insert, [
    dispute.merchantId,
    dispute.id,
    dispute.transactionId,
    toDate(dispute.createdMs),
    dispute.amount,
    dispute.currency,
    dispute.status,
    dispute.reason,
    toDateOrNull(dispute.dueMs),
    dispute.held,
    dispute.excess,
    dispute.excessHeld,
    dispute.fee.flat,
    dispute.fee.rate,
    dispute.lineId,
    toDateOrNull(dispute.resolvedMs),
  ])
}

/** Stores how a dispute ended. The caller holds the lock of its transaction. */
export async function updateDispute(tx: Tx, dispute: Dispute): Promise<void> {
  await tx.query('UPDATE disputes SET status = $2, resolved = $3 WHERE id = $1', [
    dispute.id,
    dispute.status,
    toDateOrNull(dispute.resolvedMs),
  ])
}

/**
 * Returns a dispute. To resolve it, lock its transaction by `lockTransaction` first, and then read it again.
 */
export async function findDispute(tx: Tx, id: string): Promise<Dispute | undefined> {
  const [row] = await tx.query<DisputeRow>(`SELECT ${columns.join(', ')} FROM disputes WHERE id = $1`, [id])
  return row === undefined ? undefined : disputeOf(row)
}

export async function disputesOfTransactions(tx: Tx, ids: readonly string[]): Promise<readonly Dispute[]> {
  const sql = `SELECT ${columns.join(', ')} FROM disputes WHERE transaction_id = ANY ($1::uuid[])`
  return (await tx.query<DisputeRow>(sql, [ids])).map(disputeOf)
}

const ofMerchant: ListSource<DisputeRow, Dispute> = {
  columns: columns.join(', '),
  from: 'disputes',
  owner: 'merchant_id',
  id: 'id',
  position: 'position',
  item: disputeOf,
}

export interface DisputeFilters {
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
