import type { Line, LineKind } from '../../domain/ledger/line.ts'
import type { LineSearch } from '../../domain/transaction/transaction-search.ts'
import { createdIn, type ListSource, listPage, type Page, type PageQuery } from '../list-page.ts'
import { insertAtNextPosition, positionOf, toDate } from '../sql-statements.ts'
import type { Tx } from '../storage.ts'

interface LineRow {
  readonly id: string
  readonly merchant_id: string
  readonly test: boolean
  readonly created: Date
  readonly kind: LineKind
  readonly balance: bigint
  readonly fee_flat: bigint
  readonly fee_rate: bigint
  readonly description: string
  readonly transaction_id: string | null
  readonly amount: bigint
  readonly currency: string
}

const columns = [
  'merchant_id',
  'id',
  'test',
  'created',
  'kind',
  'balance',
  'fee_flat',
  'fee_rate',
  'description',
  'transaction_id',
  'amount',
  'currency',
]

function lineOf(row: LineRow): Line {
  const { id, test, kind, balance, description, amount, currency } = row
  return {
    id,
    merchantId: row.merchant_id,
    test,
    createdMs: row.created.getTime(),
    kind,
    balance,
    fee: { flat: row.fee_flat, rate: row.fee_rate, total: row.fee_flat + row.fee_rate },
    description,
    transactionId: row.transaction_id,
    amount: { currency, amount },
  }
}

const insert = insertAtNextPosition('lines', columns)

/** Holds the merchant's lists, and with them its balance, until this database transaction ends. */
export function insertLine(tx: Tx, line: Line): void {
  tx.send(insert, [
    line.merchantId,
    line.id,
    line.test,
    toDate(line.createdMs),
    line.kind,
    line.balance,
    line.fee.flat,
    line.fee.rate,
    line.description,
    line.transactionId,
    line.amount.amount,
    line.amount.currency,
  ])
}

export async function findLine(tx: Tx, id: string): Promise<Line | undefined> {
  const [row] = await tx.query<LineRow>(`${select} WHERE id = $1`, [id])
  return row === undefined ? undefined : lineOf(row)
}

const select = `SELECT ${columns.join(', ')} FROM lines`

export async function linesOfTransactions(tx: Tx, ids: readonly string[]): Promise<readonly Line[]> {
  const rows = await tx.query<LineRow>(`${select} WHERE transaction_id = ANY ($1::uuid[])`, [ids])
  return rows.map(lineOf)
}

/**
 * Returns a merchant's lines that belong to no transaction, which are its payouts, in the order of the list.
 *
 * @param afterId the last id of the part before; null for the first part
 */
export async function listPayoutLines(
  tx: Tx,
  merchantId: string,
  afterId: string | null,
  limit: number,
): Promise<readonly Line[]> {
  const rows = await tx.query<LineRow>(
    `${select} WHERE merchant_id = $1 AND transaction_id IS NULL AND position > ${positionOf('lines', '$2')}
     ORDER BY position LIMIT $3`,
    [merchantId, afterId, limit],
  )
  return rows.map(lineOf)
}

const ofMerchant: ListSource<LineRow, Line> = {
  columns: columns.join(', '),
  from: 'lines',
  owner: 'merchant_id',
  id: 'id',
  position: 'position',
  item: lineOf,
}

/**
 * Returns a part of a merchant's lines. A search in a range of time is in the order of creation, which an
 * index has; without a range it is in the order of the list.
 */
export function listLines(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  search: LineSearch = { transactionId: null, fromMs: null, toMs: null },
): Promise<Page<Line>> {
  const position = search.fromMs === null ? ofMerchant.position : ['created', 'id']
  const source = { ...ofMerchant, position, conditions: createdIn('created', search) }
  return listPage(tx, source, merchantId, page, { transaction_id: search.transactionId })
}
