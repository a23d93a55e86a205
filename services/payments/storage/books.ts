import type { Merchant } from '../domain/merchant.ts'
import { firstId, onlyRow, type Tx } from './storage.ts'
import type { Row } from './table.ts'
import { merchantTable } from './tables/merchants.ts'

/** @param afterId the last id of the previous part; null for the first part */
export async function listAllMerchants(
  tx: Tx,
  afterId: string | null,
  limit: number,
): Promise<readonly Merchant[]> {
  const rows = await tx.query<Row>(
    `SELECT ${merchantTable.columns} FROM merchants WHERE id > coalesce($1, '${firstId}'::uuid) ORDER BY id LIMIT $2`,
    [afterId, limit],
  )
  return rows.map(merchantTable.read)
}

const counted = ['merchants', 'transactions', 'disputes', 'lines', 'entries'] as const
export type RecordCounts = Readonly<Record<(typeof counted)[number], bigint>>

export async function countBookRecords(tx: Tx): Promise<RecordCounts> {
  const columns = counted.map(name => {
    return `(SELECT count(*) FROM ${name === 'entries' ? 'ledger_entries' : name}) AS ${name}`
  })
  return onlyRow(await tx.query<RecordCounts>(`SELECT ${columns.join(', ')}`))
}

/** Returns the sum of `balance` of a merchant's lines, in minor units of the merchant's currency. */
export async function sumOfLines(tx: Tx, merchantId: string): Promise<bigint> {
  const rows = await tx.query<{ total: bigint }>(
    'SELECT coalesce(sum(balance), 0)::bigint AS total FROM lines WHERE merchant_id = $1',
    [merchantId],
  )
  return onlyRow(rows).total
}
