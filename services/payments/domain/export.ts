import type { JsonObject } from '@tollway/chassis/json.ts'
import type { Line } from './ledger/ledger.ts'
import type { Transaction } from './transaction/transaction.ts'

/** A table of exported records: its columns by their names, in their order. */
type Columns<Item> = Readonly<Record<string, (item: Item) => Cell>>

const isoDate = (ms: number) => new Date(ms).toISOString()
const jsonOrNull = (value: JsonObject | null) => (value === null ? null : JSON.stringify(value))

/** The columns of exported transactions. Amounts are in minor units of `currency`. */
export const transactionColumns: Columns<Transaction> = {
  id: ({ id }) => id,
  created: ({ createdMs }) => isoDate(createdMs),
  test: ({ test }) => test,
  reference: ({ reference }) => reference,
  currency: ({ currency }) => currency,
  amount: ({ amount }) => amount,
  pendingAmount: ({ pendingAmount }) => pendingAmount,
  capturedAmount: ({ capturedAmount }) => capturedAmount,
  refundedAmount: ({ refundedAmount }) => refundedAmount,
  voidedAmount: ({ voidedAmount }) => voidedAmount,
  disputedAmount: ({ disputedAmount }) => disputedAmount,
  successful: ({ error }) => error === null,
  error: ({ error }) => error,
  recurring: ({ recurring }) => recurring,
  tds: ({ tds }) => tds,
  cardScheme: ({ card }) => card.scheme,
  cardLast4: ({ card }) => card.last4,
  descriptor: ({ descriptor }) => descriptor,
  custom: ({ custom }) => jsonOrNull(custom),
}

/** The columns of exported lines. `balance` and `fee` are in the merchant's currency. */
export const lineColumns: Columns<Line> = {
  id: ({ id }) => id,
  created: ({ createdMs }) => isoDate(createdMs),
  test: ({ test }) => test,
  kind: ({ kind }) => kind,
  transactionId: ({ transactionId }) => transactionId,
  description: ({ description }) => description,
  currency: ({ amount }) => amount.currency,
  amount: ({ amount }) => amount.amount,
  balance: ({ balance }) => balance,
  fee: ({ fee }) => fee.total,
}

/** A CSV document (RFC 4180): a header with the columns' names, then one record an item. */
export function exportCsv<Item>(columns: Columns<Item>, items: readonly Item[]): string {
  const readers = Object.values(columns)
  const records = items.map(item => csvRecord(readers.map(read => read(item))))
  return csvRecord(Object.keys(columns)) + records.join('')
}

/** A value of a table. Text can come from a merchant or a payer; numbers and flags are the service's own. */
type Cell = string | bigint | number | boolean | null

/**
 * Matches text that a spreadsheet program would run as a formula, also after white space and in full width.
 * An apostrophe in front of it marks it as text.
 */
const formula = /^\s*[=+\-@＝＋－＠\t\r\n]/u

/** A record of RFC 4180, with its line end. Text is always quoted. */
export function csvRecord(cells: readonly Cell[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

function csvCell(cell: Cell): string {
  if (cell === null) return ''
  if (typeof cell !== 'string') return `${cell}`
  const safe = formula.test(cell) ? `'${cell}` : cell
  return `"${safe.replaceAll('"', '""')}"`
}
