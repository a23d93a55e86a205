import type { FraudAlert } from '../../domain/transaction/fraud.ts'
import { type ListSource, listPage, type Page, type PageQuery } from '../list-page.ts'
import { insertAtNextPosition, toDate, toDateOrNull, toMsOrNull } from '../sql-statements.ts'
import type { Tx } from '../storage.ts'

interface FraudRow {
  readonly id: string
  readonly merchant_id: string
  readonly transaction_id: string
  readonly created: Date
  readonly reported: Date | null
  readonly reason: number | null
}

const columns = ['merchant_id', 'id', 'transaction_id', 'created', 'reported', 'reason']

function fraudOf({ id, merchant_id, transaction_id, created, reported, reason }: FraudRow): FraudAlert {
  return {
    id,
    merchantId: merchant_id,
    transactionId: transaction_id,
    createdMs: created.getTime(),
    reportedMs: toMsOrNull(reported),
    reason,
  }
}

const insert = insertAtNextPosition('frauds', columns)

/** Holds the merchant's lists until this database transaction ends. */
export async function insertFraud(tx: Tx, fraud: FraudAlert): Promise<void> {
  await tx.query(insert, [
    fraud.merchantId,
    fraud.id,
    fraud.transactionId,
    toDate(fraud.createdMs),
    toDateOrNull(fraud.reportedMs),
    fraud.reason,
  ])
}

export async function findFraud(tx: Tx, id: string): Promise<FraudAlert | undefined> {
  const [row] = await tx.query<FraudRow>(`SELECT ${columns.join(', ')} FROM frauds WHERE id = $1`, [id])
  return row === undefined ? undefined : fraudOf(row)
}

const ofMerchant: ListSource<FraudRow, FraudAlert> = {
  columns: columns.join(', '),
  from: 'frauds',
  owner: 'merchant_id',
  id: 'id',
  position: 'position',
  item: fraudOf,
}

export function listFrauds(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  filters: { readonly transactionId?: string | null } = {},
): Promise<Page<FraudAlert>> {
  return listPage(tx, ofMerchant, merchantId, page, { transaction_id: filters.transactionId })
}
