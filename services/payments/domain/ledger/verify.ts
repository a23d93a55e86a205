import type { Merchant } from '../merchant.ts'
import { total } from '../money/money.ts'
import type { Dispute } from '../transaction/dispute.ts'
import type { TrailEntry } from '../transaction/trail.ts'
import { remainingAmount, type Transaction } from '../transaction/transaction.ts'
import { type Account, imbalances, type LedgerEntry, type Line, sumAccount } from './ledger.ts'

export interface BookFinding {
  /** Null if the record belongs to no known merchant. */
  readonly merchantId: string | null
  /** The kind and the id of the inconsistent record: `transaction <id>`, `line <id>`, and so on. */
  readonly record: string
  readonly message: string
}

/** All records of one merchant, or some of its transactions with all records that belong to them. */
export interface Book {
  readonly merchant: Merchant
  readonly transactions: readonly Transaction[]
  readonly disputes: readonly Dispute[]
  readonly lines: readonly Line[]
  readonly entries: readonly LedgerEntry[]
}

type Report = (record: string, message: string) => void

/**
 * Verifies a merchant's book: the postings of each entry sum to zero, each line equals what its entry posted
 * to the merchant, and the amounts of each transaction equal the sums of its trail, disputes and entries.
 *
 * @returns all inconsistencies; empty for a correct book
 */
export function verify(book: Book): readonly BookFinding[] {
  const findings: BookFinding[] = []
  const report: Report = (record, message) => findings.push({ merchantId: book.merchant.id, record, message })
  verifyEntries(book, report)
  verifyLines(book, report)
  const byTransaction = {
    disputes: Map.groupBy(book.disputes, dispute => dispute.transactionId),
    lines: Map.groupBy(book.lines, line => line.transactionId),
    entries: Map.groupBy(book.entries, entry => entry.transactionId),
  }
  for (const transaction of book.transactions) {
    const { id } = transaction
    verifyTransaction(
      book.merchant,
      {
        transaction,
        disputes: byTransaction.disputes.get(id) ?? [],
        lines: byTransaction.lines.get(id) ?? [],
        entries: byTransaction.entries.get(id) ?? [],
      },
      (message: string) => report(`transaction ${id}`, message),
    )
  }
  verifyReferences(book, report)
  return findings
}

function verifyEntries({ merchant, entries }: Book, report: Report): void {
  for (const entry of entries) {
    const record = `entry ${entry.id}`
    for (const [currency, sum] of imbalances(entry.postings)) {
      report(record, `its postings in ${currency} sum to ${sum}, not to 0`)
    }
    for (const currency of sumAccount(entry.postings, 'merchant').keys()) {
      if (currency !== merchant.currency)
        report(record, `posts ${currency} to a balance in ${merchant.currency}`)
    }
    if (entry.test !== merchant.test) report(record, 'mixes test and live')
    if (entry.merchantId !== merchant.id) report(record, `belongs to the merchant ${entry.merchantId}`)
  }
}

/** Each line has exactly one entry with the same amounts; each entry that changes the balance has a line. */
function verifyLines({ merchant, lines, entries }: Book, report: Report): void {
  const entriesOf = Map.groupBy(entries, entry => entry.lineId)
  const known = new Set<string | null>(lines.map(line => line.id))
  for (const entry of entries) {
    const missing = entry.lineId === null ? touchesBalance(entry) : !known.has(entry.lineId)
    if (missing) report(`entry ${entry.id}`, 'has no line')
  }
  for (const line of lines) {
    const record = `line ${line.id}`
    const [entry, ...more] = entriesOf.get(line.id) ?? []
    if (entry === undefined || more.length > 0) {
      report(record, `has ${more.length + (entry === undefined ? 0 : 1)} ledger entries, not 1`)
      continue
    }
    expect(record, 'its balance', line.balance, balance([entry], 'merchant', merchant.currency), report)
    expect(record, 'its fee', line.fee.total, balance([entry], 'fees', merchant.currency), report)
    if (line.fee.flat + line.fee.rate !== line.fee.total)
      report(record, 'its fee is not the sum of its parts')
    const sameOrigin =
      line.kind === entry.kind &&
      line.transactionId === entry.transactionId &&
      line.merchantId === entry.merchantId &&
      line.test === entry.test
    if (!sameOrigin) report(record, `is not of the same kind and origin as its entry ${entry.id}`)
  }
}

function touchesBalance(entry: LedgerEntry): boolean {
  return entry.postings.some(posting => posting.account === 'merchant')
}

interface Records {
  readonly transaction: Transaction
  readonly disputes: readonly Dispute[]
  readonly lines: readonly Line[]
  readonly entries: readonly LedgerEntry[]
}

type ReportOne = (message: string) => void

function verifyTransaction(merchant: Merchant, records: Records, report: ReportOne): void {
  if (records.transaction.merchantId !== merchant.id || records.transaction.test !== merchant.test) {
    report(`belongs to the merchant ${records.transaction.merchantId}, or mixes test and live`)
  }
  verifyAmounts(records.transaction, report)
  verifyReplay(records, report)
  verifyMoney(records, report)
}

function verifyAmounts(transaction: Transaction, report: ReportOne): void {
  const { amount, pendingAmount, capturedAmount, refundedAmount, voidedAmount, disputedAmount } = transaction
  if (amount !== pendingAmount + capturedAmount + voidedAmount) {
    report(`${amount} is not pending ${pendingAmount} + captured ${capturedAmount} + voided ${voidedAmount}`)
  }
  const { excessDisputedAmount } = transaction
  const parts = {
    pendingAmount,
    capturedAmount,
    refundedAmount,
    voidedAmount,
    disputedAmount,
    excessDisputedAmount,
  }
  for (const [name, value] of Object.entries(parts)) if (value < 0n) report(`${name} is ${value}`)
  if (remainingAmount(transaction) < 0n) {
    const disputed = disputedAmount - excessDisputedAmount
    report(`refunded ${refundedAmount} + disputed ${disputed} is more than captured ${capturedAmount}`)
  }
  const { refundableValue } = transaction
  if (refundableValue < 0n || (remainingAmount(transaction) === 0n && refundableValue !== 0n)) {
    report(`the remaining amount ${remainingAmount(transaction)} cannot be worth ${refundableValue}`)
  }
}

/** Compares the amounts of a transaction with the sums of its trail and its disputes. */
function verifyReplay({ transaction, disputes }: Records, report: ReportOne): void {
  const { trail, amount, error } = transaction
  const sum = (kind: TrailEntry['kind']) =>
    total(trail.filter(entry => entry.kind === kind).map(e => e.amount))
  const record = 'the trail'
  const reportTransaction: Report = (_, message) => report(message)
  const voided = error === null ? sum('void') : amount
  expect(record, 'capturedAmount', transaction.capturedAmount, sum('capture'), reportTransaction)
  expect(record, 'refundedAmount', transaction.refundedAmount, sum('refund'), reportTransaction)
  expect(record, 'voidedAmount', transaction.voidedAmount, voided, reportTransaction)
  const unwon = disputes.filter(({ status }) => status !== 'won')
  const disputed = total(unwon.map(dispute => dispute.amount))
  expect(record, 'disputedAmount', transaction.disputedAmount, disputed, reportTransaction)
  const excess = total(unwon.map(dispute => dispute.excess))
  expect(record, 'excessDisputedAmount', transaction.excessDisputedAmount, excess, reportTransaction)
  for (const { id, status } of disputes) {
    const outcomes = trail.filter(entry => entry.dispute?.id === id).map(entry => entry.dispute?.outcome)
    const expected = status === 'open' ? [] : [status]
    if (outcomes.join() !== expected.join()) {
      report(`the trail mentions dispute ${id} [${outcomes.join()}], which is ${status}`)
    }
  }
}

/** Compares the lines and ledger entries of a transaction with its amounts, its trail and its disputes. */
function verifyMoney({ transaction, disputes, lines, entries }: Records, report: ReportOne): void {
  const reportTransaction: Report = (_, message) => report(message)
  const { currency, trail } = transaction
  const open = disputes.filter(({ status }) => status === 'open')
  const lost = disputes.filter(({ status }) => status === 'lost')
  const held = total(open.map(dispute => dispute.held + dispute.fee.total))
  const inTrail = total(trail.map(entry => entry.balance)) - held
  expect(
    '',
    'what the trail and the open disputes did to the balance',
    inTrail,
    total(lines.map(l => l.balance)),
    reportTransaction,
  )
  // The amount that is held for the excess of a dispute was never refundable, so it is added back.
  const excess = total([...open, ...lost].map(dispute => dispute.excessHeld))
  const value = total(lines.map(line => line.balance + line.fee.total)) + excess
  expect('', 'refundableValue', transaction.refundableValue, value, reportTransaction)
  const atProcessor =
    transaction.refundedAmount + total(lost.map(dispute => dispute.amount)) - transaction.capturedAmount
  expect(
    '',
    'the processor’s account',
    atProcessor,
    balance(entries, 'clearing', currency),
    reportTransaction,
  )
  const inDispute = total(open.map(dispute => dispute.amount))
  expect('', 'the account of disputes', inDispute, balance(entries, 'disputes', currency), reportTransaction)
  verifyTrailLines(trail, lines, report)
}

/**
 * Verifies that the line of each trail entry exists, and that the line of a capture or refund has the same
 * amounts.
 */
function verifyTrailLines(trail: readonly TrailEntry[], lines: readonly Line[], report: ReportOne): void {
  const byId = new Map(lines.map(line => [line.id, line]))
  for (const { kind, lineId, amount, balance } of trail) {
    if (lineId === null) continue
    const line = byId.get(lineId)
    if (line === undefined) report(`the trail names the line ${lineId}, which does not exist`)
    else if (kind !== 'dispute' && (line.balance !== balance || line.amount.amount !== amount)) {
      report(`the ${kind} in the trail and its line ${lineId} differ`)
    }
  }
}

/** Verifies that every line, entry and dispute belongs to a transaction of the book, or to none. */
function verifyReferences({ transactions, disputes, lines, entries }: Book, report: Report): void {
  const known = new Set<string | null>(transactions.map(transaction => transaction.id)).add(null)
  const message = 'belongs to a transaction that does not exist'
  for (const { id, transactionId } of disputes)
    if (!known.has(transactionId)) report(`dispute ${id}`, message)
  for (const { id, transactionId } of lines) if (!known.has(transactionId)) report(`line ${id}`, message)
  for (const { id, transactionId } of entries) if (!known.has(transactionId)) report(`entry ${id}`, message)
}

function expect(record: string, what: string, found: bigint, expected: bigint, report: Report): void {
  if (found !== expected) report(record, `${what} is ${found}; its records make it ${expected}`)
}

function balance(entries: readonly LedgerEntry[], account: Account, currency: string): bigint {
  const postings = entries.flatMap(entry => entry.postings)
  return sumAccount(postings, account).get(currency) ?? 0n
}
