import type { JsonObject } from '@tollway/chassis/json.ts'
import { maxShownTrail } from '../../domain/present.ts'
import type { ProcessingErrorCode } from '../../domain/transaction/processing-errors.ts'
import type {
  Tds,
  Transaction,
  TransactionSearch,
  TransactionStatus,
} from '../../domain/transaction/transaction.ts'
import {
  createdIn,
  type ListPage,
  type ListSource,
  listPage,
  type PageQuery,
  type SqlCondition,
} from '../list-page.ts'
import { onlyRow, positionAfter, type Tx, toDate } from '../storage.ts'
import { instantColumn, jsonColumn, type Row, Table, valueColumn } from '../table.ts'
import { card, cardReference } from './cards.ts'
import { selectTrail, type TrailJson, toTrail } from './trail.ts'

const transactions = new Table('transactions', {
  merchantId: valueColumn<string>('merchant_id'),
  id: valueColumn<string>('id'),
  test: valueColumn<boolean>('test'),
  createdMs: instantColumn('created'),
  currency: valueColumn<string>('currency'),
  amount: valueColumn<bigint>('amount'),
  descriptor: valueColumn<string>('descriptor'),
  pendingAmount: valueColumn<bigint>('pending_amount'),
  capturedAmount: valueColumn<bigint>('captured_amount'),
  refundedAmount: valueColumn<bigint>('refunded_amount'),
  voidedAmount: valueColumn<bigint>('voided_amount'),
  disputedAmount: valueColumn<bigint>('disputed_amount'),
  excessDisputedAmount: valueColumn<bigint>('excess_disputed_amount'),
  refundableValue: valueColumn<bigint>('refundable_value'),
  refundableRest: valueColumn<bigint>('refundable_rest'),
  card,
  cardReference,
  custom: jsonColumn<JsonObject | null>('custom'),
  reference: valueColumn<string | null>('reference'),
  tds: valueColumn<Tds | null>('tds'),
  recurring: valueColumn<boolean>('recurring'),
  error: valueColumn<ProcessingErrorCode | null>('error'),
  expiresMs: instantColumn('expires'),
  processorReference: valueColumn<string | null>('processor_reference'),
})

type TransactionRow = Row & { readonly id: string }
type TransactionRowWithTrail = TransactionRow & { readonly trail: TrailJson }

const selected = transactions.columnsWithAlias('t')
const withTrail = (newest: number | null) => `${selected}, (${selectTrail('t.id', newest)}) AS trail`
const selectedWithTrail = withTrail(maxShownTrail)

function toTransaction(row: TransactionRowWithTrail): Transaction {
  return { ...transactions.read(row), ...toTrail(row.id, row.trail) }
}

const insert = transactions.insertAtNextPosition()

/** Locks the merchant's lists until this transaction ends. */
export async function insertTransaction(tx: Tx, transaction: Transaction): Promise<void> {
  await tx.query(insert.sql, insert.values(transaction))
}

const find = `SELECT ${selectedWithTrail} FROM transactions t WHERE t.id = $1`

export async function findTransaction(tx: Tx, id: string): Promise<Transaction | undefined> {
  const [row] = await tx.query<TransactionRowWithTrail>(find, [id])
  return row === undefined ? undefined : toTransaction(row)
}

const findOfApp = `${find} AND EXISTS (
    SELECT FROM merchant_apps m WHERE m.merchant_id = t.merchant_id AND m.app_id = $2)`

/** Returns the transaction; undefined if the app has no access to the merchant. */
export async function findTransactionOfApp(
  tx: Tx,
  id: string,
  appId: string,
): Promise<Transaction | undefined> {
  const [row] = await tx.query<TransactionRowWithTrail>(findOfApp, [id, appId])
  return row === undefined ? undefined : toTransaction(row)
}

const lock = `SELECT ${selected} FROM transactions t WHERE t.id = $1 FOR NO KEY UPDATE`
const trailAlone = `SELECT (${selectTrail('$1', maxShownTrail)}) AS trail`

/**
 * Returns the transaction, locked until the end of this database transaction. To avoid deadlocks, take this
 * lock after the lock of an idempotency key and before the lock of the merchant.
 */
export async function lockTransaction(tx: Tx, id: string): Promise<Transaction | undefined> {
  // Reads the trail in a second statement. A statement that waits for the lock would return the trail from
  // before the wait.
  const [[row], trails] = await Promise.all([
    tx.query<TransactionRow>(lock, [id]),
    tx.query<{ trail: TrailJson }>(trailAlone, [id]),
  ])
  return row && toTransaction({ ...row, trail: onlyRow(trails).trail })
}

const update = transactions.update(
  'pendingAmount',
  'capturedAmount',
  'refundedAmount',
  'voidedAmount',
  'disputedAmount',
  'excessDisputedAmount',
  'refundableValue',
  'refundableRest',
)

/** Stores the amounts of a transaction that can change. The caller must have locked the transaction. */
export function updateAmounts(tx: Tx, transaction: Transaction): void {
  tx.send(update.sql, update.values(transaction))
}

const ofMerchant: ListSource<TransactionRowWithTrail, Transaction> = {
  columns: selectedWithTrail,
  from: 'transactions t',
  owner: 't.merchant_id',
  id: 't.id',
  position: 't.position',
  item: toTransaction,
}

/**
 * Returns a page of transactions. With a range of time, they are ordered by creation, for which there is an
 * index.
 */
export function listTransactions(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  search?: TransactionSearch,
): Promise<ListPage<Transaction>> {
  return listFrom(tx, ofMerchant, merchantId, { page, search })
}

/** Returns a page as `listTransactions` does, but with empty trails. The totals are complete. */
export function listWithoutTrails(
  tx: Tx,
  merchantId: string,
  page: PageQuery,
  search?: TransactionSearch,
): Promise<ListPage<Transaction>> {
  return listFrom(tx, { ...ofMerchant, columns: withTrail(0) }, merchantId, { page, search })
}

interface Searched {
  readonly page: PageQuery
  readonly search: TransactionSearch | undefined
}

function listFrom(tx: Tx, list: typeof ofMerchant, merchantId: string, { page, search }: Searched) {
  if (search === undefined) return listPage(tx, list, merchantId, page)
  const position = search.fromMs === null ? list.position : ['t.created', 't.id']
  const source = { ...list, position, conditions: searchConditions(search) }
  return listPage(tx, source, merchantId, page, { 't.reference': search.reference })
}

const statusConditions: Readonly<Record<TransactionStatus, string>> = {
  pending: 't.has_pending',
  captured: 't.captured_amount > 0',
  refunded: 't.refunded_amount > 0',
  voided: 't.voided_amount > 0 AND t.error IS NULL',
  disputed: 't.disputed_amount > 0',
  declined: 't.error IS NOT NULL',
}

function searchConditions({ status, custom, ...range }: TransactionSearch): readonly SqlCondition[] {
  return [
    ...createdIn('t.created', range),
    ...(status === null ? [] : [() => statusConditions[status]]),
    ...Object.entries(custom ?? {}).map(
      ([name, value]) =>
        (of: Parameter) =>
          `t.custom ->> ${of(name)}::text = ${of(value)}::text`,
    ),
  ]
}

type Parameter = Parameters<SqlCondition>[0]

/** @param afterId the last id of the previous part; null for the first part */
export async function listTransactionsInOrder(
  tx: Tx,
  merchantId: string,
  afterId: string | null,
  limit: number,
): Promise<readonly Transaction[]> {
  const rows = await tx.query<TransactionRowWithTrail>(
    `SELECT ${withTrail(null)} FROM transactions t
     WHERE t.merchant_id = $1 AND t.position > ${positionAfter('transactions', '$2')}
     ORDER BY t.position LIMIT $3`,
    [merchantId, afterId, limit],
  )
  return rows.map(toTransaction)
}

/** Returns ids of transactions with a pending amount whose authorisation expired, in this order. */
export async function listExpiredTransactions(
  tx: Tx,
  nowMs: number,
  limit: number,
): Promise<readonly string[]> {
  const rows = await tx.query<{ id: string }>(
    'SELECT id FROM transactions WHERE has_pending AND expires <= $1 ORDER BY expires LIMIT $2',
    [toDate(nowMs), limit],
  )
  return rows.map(row => row.id)
}
