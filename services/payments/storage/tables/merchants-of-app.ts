import type { Merchant } from '../../domain/merchant.ts'
import { type ListPage, type ListSource, listPage, type PageQuery } from '../list-page.ts'
import type { Tx } from '../storage.ts'
import type { Row } from '../table.ts'
import { merchantTable } from './merchants.ts'

const from = 'merchant_apps m JOIN merchants ON merchants.id = m.merchant_id'
const find = `SELECT ${merchantTable.columnsWithAlias('merchants')} FROM ${from} WHERE m.merchant_id = $1 AND m.app_id = $2`

/** Returns the merchant; undefined if the app has no access to it. */
export async function findMerchantOfApp(
  tx: Tx,
  merchantId: string,
  appId: string,
): Promise<Merchant | undefined> {
  const [row] = await tx.query<Row>(find, [merchantId, appId])
  return row === undefined ? undefined : merchantTable.read(row)
}

const findOfTransaction = find.replace(
  'm.merchant_id = $1',
  'm.merchant_id = (SELECT merchant_id FROM transactions WHERE id = $1)',
)

/** Returns the merchant of a transaction; undefined if the app has no access to the merchant. */
export async function findMerchantOfTransaction(
  tx: Tx,
  transactionId: string,
  appId: string,
): Promise<Merchant | undefined> {
  const [row] = await tx.query<Row>(findOfTransaction, [transactionId, appId])
  return row === undefined ? undefined : merchantTable.read(row)
}

const ofApp: ListSource<Row, Merchant> = {
  columns: merchantTable.columnsWithAlias('merchants'),
  from,
  owner: 'm.app_id',
  id: 'm.merchant_id',
  position: 'm.identity_position',
  item: merchantTable.read,
}

export function listFilteredMerchantsOfApp(
  tx: Tx,
  appId: string,
  page: PageQuery,
  filters: { readonly test?: boolean | null } = {},
): Promise<ListPage<Merchant>> {
  return listPage(tx, ofApp, appId, page, { 'merchants.test': filters.test })
}
