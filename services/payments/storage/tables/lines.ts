import type { Line, LineKind } from '../../domain/ledger/ledger.ts'
import type { Fee } from '../../domain/money/fees.ts'
import type { LineSearch } from '../../domain/transaction/transaction.ts'
import { createdIn, type ListPage, listOfMerchant, listPage, type PageQuery } from '../list-page.ts'
import { onlyRow, positionAfter, type Tx } from '../storage.ts'
import { columnGroup, instantColumn, type Row, Table, type TableField, valueColumn } from '../table.ts'

const feeParts = columnGroup({ flat: valueColumn<bigint>('fee_flat'), rate: valueColumn<bigint>('fee_rate') })

export const fee: TableField<Fee> = {
  columns: feeParts.columns,
  write: feeParts.write,
  read(row) {
    const { flat, rate } = feeParts.read(row)
    return { flat, rate, total: flat + rate }
  },
}

const lines = new Table('lines', {
  merchantId: valueColumn<string>('merchant_id'),
  id: valueColumn<string>('id'),
  test: valueColumn<boolean>('test'),
  createdMs: instantColumn('created'),
  kind: valueColumn<LineKind>('kind'),
  balance: valueColumn<bigint>('balance'),
  fee,
  description: valueColumn<string>('description'),
  transactionId: valueColumn<string | null>('transaction_id'),
  amount: columnGroup({ amount: valueColumn<bigint>('amount'), currency: valueColumn<string>('currency') }),
})

const insert = lines.insertAtNextPosition()

/** Locks the merchant's lists, and so the balance, until this transaction ends. */
export function insertLine(tx: Tx, line: Line): void {
  tx.send(insert.sql, insert.values(line))
}

export const findLine: (tx: Tx, id: string) => Promise<Line | undefined> = lines.find

const select = `SELECT ${lines.columns} FROM lines`

export async function linesOfTransactions(tx: Tx, ids: readonly string[]): Promise<readonly Line[]> {
  const rows = await tx.query<Row>(`${select} WHERE transaction_id = ANY ($1::uuid[])`, [ids])
  return rows.map(lines.read)
}

/** @param afterId the last id of the previous part; null for the first part */
export async function listPayoutLines(
  tx: Tx,
  merchantId: string,
  afterId: string | null,
  limit: number,
): Promise<readonly Line[]> {
  const rows = await tx.query<Row>(
    `${select} WHERE merchant_id = $1 AND transaction_id IS NULL AND position > ${positionAfter('lines', '$2')}
     ORDER BY position LIMIT $3`,
    [merchantId, afterId, limit],
  )
  return rows.map(lines.read)
}

/** Returns the sum of `balance` of a merchant's lines, in minor units of the merchant's currency. */
export async function sumOfLines(tx: Tx, merchantId: string): Promise<bigint> {
  const rows = await tx.query<{ total: bigint }>(
    'SELECT coalesce(sum(balance), 0)::bigint AS total FROM lines WHERE merchant_id = $1',
    [merchantId],
  )
  return onlyRow(rows).total
}

const ofMerchant = listOfMerchant(lines)

/**
 * Returns a page of lines. With a range of time, they are ordered by creation, for which there is an index.
 */
export function listLines(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  search: LineSearch = { transactionId: null, fromMs: null, toMs: null },
): Promise<ListPage<Line>> {
  const position = search.fromMs === null ? ofMerchant.position : ['created', 'id']
  const source = { ...ofMerchant, position, conditions: createdIn('created', search) }
  return listPage(tx, source, merchantId, page, { transaction_id: search.transactionId })
}
