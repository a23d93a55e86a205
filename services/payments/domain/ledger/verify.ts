import type { Merchant } from '../merchant/merchant.ts'
import type { Dispute } from '../transaction/dispute.ts'
import type { TrailEntry } from '../transaction/trail.ts'
import { refundableAmount, type Transaction } from '../transaction/transaction.ts'
import { type Account, balancesOf, imbalances, type LedgerEntry, type Line } from './ledger.ts'

/** Something that does not add up. */
export interface Finding {
  readonly merchantId: string
  /** `transaction <id>`, `entry <id>`, `line <id>` or `dispute <id>`. */
  readonly record: string
  readonly message: string
}

/** All records of one merchant, or of a part of its book that is complete in itself. */
export interface Book {
  readonly merchant: Merchant
  readonly transactions: readonly Transaction[]
  readonly disputes: readonly Dispute[]
  readonly lines: readonly Line[]
  readonly entries: readonly LedgerEntry[]
}

type Tell = (record: string, message: string) => void

/**
 * Proves a merchant's book: each entry balances by itself, each line is what its entry posted to the
 * merchant, and each transaction is what its trail, its disputes and its entries make of it when they are
 * replayed. A book can be proved in parts, each with some transactions and all that belongs to them.
 *
 * @returns everything that does not add up; nothing for a sound book
 */
export function verify(book: Book): readonly Finding[] {
  const findings: Finding[] = []
  const tell: Tell = (record, message) => findings.push({ merchantId: book.merchant.id, record, message })
  verifyEntries(book, tell)
  verifyLines(book, tell)
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
      (message: string) => tell(`transaction ${id}`, message),
    )
  }
  verifyReferences(book, tell)
  return findings
}

function verifyEntries({ merchant, entries }: Book, tell: Tell): void {
  for (const entry of entries) {
    const record = `entry ${entry.id}`
    for (const [currency, sum] of imbalances(entry.postings)) {
      tell(record, `its postings in ${currency} sum to ${sum}, not to 0`)
    }
    for (const currency of balancesOf(entry.postings, 'merchant').keys()) {
      if (currency !== merchant.currency)
        tell(record, `posts ${currency} to a balance in ${merchant.currency}`)
    }
    if (entry.test !== merchant.test) tell(record, 'mixes test and live')
    if (entry.merchantId !== merchant.id) tell(record, `belongs to the merchant ${entry.merchantId}`)
  }
}

/** Each line has one entry and each entry that touches the balance one line, and they say the same. */
function verifyLines({ merchant, lines, entries }: Book, tell: Tell): void {
  const entriesOf = Map.groupBy(entries, entry => entry.lineId)
  const known = new Set<string | null>(lines.map(line => line.id))
  for (const entry of entries) {
    const missing = entry.lineId === null ? touchesBalance(entry) : !known.has(entry.lineId)
    if (missing) tell(`entry ${entry.id}`, 'has no line')
  }
  for (const line of lines) {
    const record = `line ${line.id}`
    const [entry, ...more] = entriesOf.get(line.id) ?? []
    if (entry === undefined || more.length > 0) {
      tell(record, `has ${more.length + (entry === undefined ? 0 : 1)} ledger entries, not 1`)
      continue
    }
    expect(record, 'its balance', line.balance, balance([entry], 'merchant', merchant.currency), tell)
    expect(record, 'its fee', line.fee.total, balance([entry], 'fees', merchant.currency), tell)
    if (line.fee.flat + line.fee.rate !== line.fee.total) tell(record, 'its fee is not the sum of its parts')
    const sameOrigin =
      line.kind === entry.kind &&
      line.transactionId === entry.transactionId &&
      line.merchantId === entry.merchantId &&
      line.test === entry.test
    if (!sameOrigin) tell(record, `is not of the same kind and origin as its entry ${entry.id}`)
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

type TellOne = (message: string) => void

function verifyTransaction(merchant: Merchant, records: Records, tell: TellOne): void {
  if (records.transaction.merchantId !== merchant.id || records.transaction.test !== merchant.test) {
    tell(`belongs to the merchant ${records.transaction.merchantId}, or mixes test and live`)
  }
  verifyAmounts(records.transaction, tell)
  verifyReplay(records, tell)
  verifyMoney(records, tell)
}

function verifyAmounts(transaction: Transaction, tell: TellOne): void {
  const { amount, pendingAmount, capturedAmount, refundedAmount, voidedAmount, disputedAmount } = transaction
  if (amount !== pendingAmount + capturedAmount + voidedAmount) {
    tell(`${amount} is not pending ${pendingAmount} + captured ${capturedAmount} + voided ${voidedAmount}`)
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
  for (const [name, value] of Object.entries(parts)) if (value < 0n) tell(`${name} is ${value}`)
  if (refundableAmount(transaction) < 0n) {
    const disputed = disputedAmount - excessDisputedAmount
    tell(`refunded ${refundedAmount} + disputed ${disputed} is more than captured ${capturedAmount}`)
  }
  const { refundableValue } = transaction
  if (refundableValue < 0n || (refundableAmount(transaction) === 0n && refundableValue !== 0n)) {
    tell(`the refundable ${refundableAmount(transaction)} cannot be worth ${refundableValue}`)
  }
}

/** The amounts again, from the trail and the disputes alone. */
function verifyReplay({ transaction, disputes }: Records, tell: TellOne): void {
  const { trail, amount, error } = transaction
  const sum = (kind: TrailEntry['kind']) =>
    total(trail.filter(entry => entry.kind === kind).map(e => e.amount))
  const record = 'the trail'
  const say: Tell = (_, message) => tell(message)
  const voided = error === null ? sum('void') : amount
  expect(record, 'capturedAmount', transaction.capturedAmount, sum('capture'), say)
  expect(record, 'refundedAmount', transaction.refundedAmount, sum('refund'), say)
  expect(record, 'voidedAmount', transaction.voidedAmount, voided, say)
  const unwon = disputes.filter(({ status }) => status !== 'won')
  const disputed = total(unwon.map(dispute => dispute.amount))
  expect(record, 'disputedAmount', transaction.disputedAmount, disputed, say)
  const excess = total(unwon.map(dispute => dispute.excess))
  expect(record, 'excessDisputedAmount', transaction.excessDisputedAmount, excess, say)
  for (const { id, status } of disputes) {
    const outcomes = trail.filter(entry => entry.dispute?.id === id).map(entry => entry.dispute?.outcome)
    const expected = status === 'open' ? [] : [status]
    if (outcomes.join() !== expected.join()) {
      tell(`the trail mentions dispute ${id} [${outcomes.join()}], which is ${status}`)
    }
  }
}

/** Compares the lines and entries of the merchant and the accounts with the amounts and the trail. */
function verifyMoney({ transaction, disputes, lines, entries }: Records, tell: TellOne): void {
  const say: Tell = (_, message) => tell(message)
  const { currency, trail } = transaction
  const open = disputes.filter(({ status }) => status === 'open')
  const lost = disputes.filter(({ status }) => status === 'lost')
  const held = total(open.map(dispute => dispute.held + dispute.fee.total))
  const told = total(trail.map(entry => entry.balance)) - held
  expect(
    '',
    'what the trail and the open disputes did to the balance',
    told,
    total(lines.map(l => l.balance)),
    say,
  )
  // The amounts held for the excess of disputes were never refundable.
  const excess = total([...open, ...lost].map(dispute => dispute.excessHeld))
  const value = total(lines.map(line => line.balance + line.fee.total)) + excess
  expect('', 'refundableValue', transaction.refundableValue, value, say)
  const atProcessor =
    transaction.refundedAmount + total(lost.map(dispute => dispute.amount)) - transaction.capturedAmount
  expect('', 'the processor’s account', atProcessor, balance(entries, 'clearing', currency), say)
  const inDispute = total(open.map(dispute => dispute.amount))
  expect('', 'the account of disputes', inDispute, balance(entries, 'disputes', currency), say)
  verifyTrailLines(trail, lines, tell)
}

/** Each entry of the trail names a line, and that of a capture or a refund says the same as the entry. */
function verifyTrailLines(trail: readonly TrailEntry[], lines: readonly Line[], tell: TellOne): void {
  const byId = new Map(lines.map(line => [line.id, line]))
  for (const { kind, lineId, amount, balance } of trail) {
    if (lineId === null) continue
    const line = byId.get(lineId)
    if (line === undefined) tell(`the trail names the line ${lineId}, which is not there`)
    else if (kind !== 'dispute' && (line.balance !== balance || line.amount.amount !== amount)) {
      tell(`the ${kind} in the trail and its line ${lineId} do not say the same`)
    }
  }
}

/** No line, entry or dispute of a transaction that is not there. */
function verifyReferences({ transactions, disputes, lines, entries }: Book, tell: Tell): void {
  const known = new Set<string | null>(transactions.map(transaction => transaction.id)).add(null)
  const message = 'belongs to a transaction that is not there'
  for (const { id, transactionId } of disputes) if (!known.has(transactionId)) tell(`dispute ${id}`, message)
  for (const { id, transactionId } of lines) if (!known.has(transactionId)) tell(`line ${id}`, message)
  for (const { id, transactionId } of entries) if (!known.has(transactionId)) tell(`entry ${id}`, message)
}

function expect(record: string, what: string, found: bigint, expected: bigint, tell: Tell): void {
  if (found !== expected) tell(record, `${what} is ${found}; its records make it ${expected}`)
}

function balance(entries: readonly LedgerEntry[], account: Account, currency: string): bigint {
  const postings = entries.flatMap(entry => entry.postings)
  return balancesOf(postings, account).get(currency) ?? 0n
}

function total(amounts: readonly bigint[]): bigint {
  return amounts.reduce((sum, amount) => sum + amount, 0n)
}
