import type { FraudAlert } from '../../domain/transaction/fraud.ts'
import { type ListPage, listOfMerchant, listPage, type PageQuery } from '../list-page.ts'
import type { Tx } from '../storage.ts'
import { instantColumn, nullableInstantColumn, Table, valueColumn } from '../table.ts'

const frauds = new Table('frauds', {
  merchantId: valueColumn<string>('merchant_id'),
  id: valueColumn<string>('id'),
  transactionId: valueColumn<string>('transaction_id'),
  createdMs: instantColumn('created'),
  reportedMs: nullableInstantColumn('reported'),
  reason: valueColumn<number | null>('reason'),
})

const insert = frauds.insertAtNextPosition()

/** Inserts a fraud alert. Locks the merchant's lists until the end of this database transaction. */
export async function insertFraud(tx: Tx, fraud: FraudAlert): Promise<void> {
  await tx.query(insert.sql, insert.values(fraud))
}

export const findFraud: (tx: Tx, id: string) => Promise<FraudAlert | undefined> = frauds.find

const ofMerchant = listOfMerchant(frauds)

export function listFrauds(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  filters: { readonly transactionId?: string | null } = {},
): Promise<ListPage<FraudAlert>> {
  return listPage(tx, ofMerchant, merchantId, page, { transaction_id: filters.transactionId })
}
