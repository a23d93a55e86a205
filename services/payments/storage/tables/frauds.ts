import type { FraudAlert } from '../../domain/transaction/fraud.ts'
import { listOfMerchant, listPage, type Page, type PageQuery } from '../list-page.ts'
import type { Tx } from '../storage.ts'
import { column, instant, nullableInstant, type Row, Table } from '../table.ts'

const frauds = new Table('frauds', {
  merchantId: column<string>('merchant_id'),
  id: column<string>('id'),
  transactionId: column<string>('transaction_id'),
  createdMs: instant('created'),
  reportedMs: nullableInstant('reported'),
  reason: column<number | null>('reason'),
})

const insert = frauds.insertAtNextPosition()

/** Holds the merchant's lists until this database transaction ends. */
export async function insertFraud(tx: Tx, fraud: FraudAlert): Promise<void> {
  await tx.query(insert.sql, insert.values(fraud))
}

export async function findFraud(tx: Tx, id: string): Promise<FraudAlert | undefined> {
  const [row] = await tx.query<Row>(`SELECT ${frauds.columns} FROM frauds WHERE id = $1`, [id])
  return row === undefined ? undefined : frauds.read(row)
}

const ofMerchant = listOfMerchant(frauds)

export function listFrauds(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  filters: { readonly transactionId?: string | null } = {},
): Promise<Page<FraudAlert>> {
  return listPage(tx, ofMerchant, merchantId, page, { transaction_id: filters.transactionId })
}
