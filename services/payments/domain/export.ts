import type { JsonObject } from '@tollway/chassis/json.ts'
import type { Line } from './ledger/ledger.ts'
import { isoDate } from './present.ts'
import type { Transaction } from './transaction/transaction.ts'

/** The columns of an export, in the order of the file. Each function returns the cell of a record. */
type Columns<Item> = Readonly<Record<string, (item: Item) => Cell>>

const jsonOrNull = (value: JsonObject | null) => (value === null ? null : JSON.stringify(value))

/** The amounts are in minor units of `currency`. */
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

/** `balance` and `fee` are in the merchant's currency. */
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

/** Returns a CSV document (RFC 4180): a header with the columns' names, then one record for each item. */
export function exportCsv<Item>(columns: Columns<Item>, items: readonly Item[]): string {
  const readers = Object.values(columns)
  const records = items.map(item => csvRecord(readers.map(read => read(item))))
  return csvRecord(Object.keys(columns)) + records.join('')
}

/**
 * The value of a cell; null is an empty one. Only text, which can come from a payer, is made safe for
 * spreadsheet programs.
 */
type Cell = string | bigint | number | boolean | null

/**
 * Matches text that a spreadsheet program would run as a formula: `=`, `+`, `-` or `@` at the start, also in
 * full width or after white space. An apostrophe that `csvCell` puts in front makes it plain text.
 */
const formula = /^\s*[=+\-@＝＋－＠\t\r\n]/u

/** Returns one record of RFC 4180, with CRLF at the end. Text is always quoted. */
function csvRecord(cells: readonly Cell[]): string {
  return `${cells.map(csvCell).join(',')}\r\n`
}

function csvCell(cell: Cell): string {
  if (cell === null) return ''
  if (typeof cell !== 'string') return `${cell}`
  const safe = formula.test(cell) ? `'${cell}` : cell
  return `"${safe.replaceAll('"', '""')}"`
}
