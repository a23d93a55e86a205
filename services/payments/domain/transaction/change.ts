import {
  chargeFee,
  type EntryKind,
  type LedgerEntry,
  type Line,
  type LineKind,
  type Posting,
  sumAccount,
  transfer,
} from '../ledger/ledger.ts'
import { chooseDescriptor, type Merchant } from '../merchant/merchant.ts'
import { exchange, type RateTable } from '../money/exchange.ts'
import { calculateFee, type Fee, type FeeTable, noFee } from '../money/fees.ts'
import { fitsJson, type Money } from '../money/money.ts'
import { addValue, takeValue } from '../money/refundable-value.ts'
import { accept, type Result, reject, rejectField } from '../rejections.ts'
import type { TrailDispute, TrailEntry, TrailKind, TrailLimits } from './trail.ts'
import {
  checkCurrency,
  checkPending,
  checkRefundable,
  checkTrail,
  type Transaction,
  withEntry,
} from './transaction.ts'

/** What an operation depends on besides its transaction. */
export interface OperationContext {
  readonly merchant: Merchant
  readonly pricing: Pricing
  readonly trailLimits: TrailLimits
  /** Milliseconds since the epoch. */
  readonly nowMs: number
  /** A new id at each call. */
  readonly nextId: () => string
}

export interface Pricing {
  readonly fees: FeeTable
  readonly rates: RateTable
}

/** The result of an operation. All of it is stored in one database transaction. */
export interface TransactionChange {
  /** The transaction after the operation, with the new entry in its trail. */
  readonly transaction: Transaction
  /** Null if the trail has no entry, as when a dispute begins. */
  readonly trailEntry: TrailEntry | null
  /** Null where the merchant's balance is not touched. */
  readonly line: Line | null
  /** Null where no money moves. */
  readonly ledgerEntry: LedgerEntry | null
}

/** The change of one operation that moved money to or from the merchant's balance. */
export interface Movement {
  readonly kind: EntryKind & LineKind
  readonly postings: readonly Posting[]
  /** The amount in the transaction's currency. */
  readonly amount: Money
  readonly fee: Fee
  readonly description: string
  readonly disputeId: string | null
}

/** Returns a ledger entry and its line. The balance of the line is the amount posted to the merchant. */
export function book(
  movement: Movement,
  transactionId: string | null,
  { merchant, nowMs, nextId }: Pick<OperationContext, 'merchant' | 'nowMs' | 'nextId'>,
): { readonly line: Line; readonly ledgerEntry: LedgerEntry } {
  const shared = {
    merchantId: merchant.id,
    test: merchant.test,
    createdMs: nowMs,
    kind: movement.kind,
    transactionId,
  }
  const line: Line = {
    id: nextId(),
    ...shared,
    balance: sumAccount(movement.postings, 'merchant').get(merchant.currency) ?? 0n,
    fee: movement.fee,
    description: movement.description,
    amount: movement.amount,
  }
  const { disputeId, postings } = movement
  return { line, ledgerEntry: { id: nextId(), ...shared, disputeId, lineId: line.id, postings } }
}

/** Books a movement of a transaction, and adds it to the trail. */
function bookInTrail(
  transaction: Transaction,
  movement: Movement & { readonly kind: TrailKind },
  descriptor: string,
  context: OperationContext,
): { readonly trailEntry: TrailEntry; readonly line: Line; readonly ledgerEntry: LedgerEntry } {
  const { line, ledgerEntry } = book(movement, transaction.id, context)
  const {
    kind,
    fee,
    amount: { amount },
  } = movement
  const note = { kind, amount, descriptor, balance: line.balance, fee, lineId: line.id }
  return { trailEntry: createTrailEntry(transaction, note, context), line, ledgerEntry }
}

/** The fields of an entry of the trail that depend on the operation. */
interface TrailFields {
  readonly kind: TrailKind
  readonly amount: bigint
  readonly descriptor: string
  readonly balance?: bigint
  readonly fee?: Fee
  readonly lineId?: string
  readonly dispute?: TrailDispute
}

export function createTrailEntry(
  transaction: Transaction,
  note: TrailFields,
  { nowMs, nextId }: OperationContext,
): TrailEntry {
  return {
    id: nextId(),
    transactionId: transaction.id,
    createdMs: nowMs,
    balance: 0n,
    fee: noFee,
    lineId: null,
    dispute: null,
    ...note,
  }
}

export interface CaptureInput {
  readonly amount: bigint
  /** A guard: must be the transaction's. */
  readonly currency: string | null
  readonly descriptor: string | null
}

/**
 * Captures a part of the pending amount, or all of it, to the merchant's balance: converted to its currency
 * at the present rate, less the fee. The captures together never exceed the transaction's amount. Their value
 * is rounded in total: at one rate, the parts have the value of the whole.
 */
export function captureTransaction(
  transaction: Transaction,
  { amount, currency, descriptor }: CaptureInput,
  context: OperationContext,
): Result<TransactionChange> {
  const { merchant, pricing, trailLimits, nowMs } = context
  if (merchant.closedMs !== null) return reject('merchant_closed')
  const rejected =
    checkCurrency(transaction, currency) ??
    checkPending(transaction, amount, 'captured', nowMs) ??
    checkTrail(transaction, 'captures', trailLimits)
  if (rejected !== undefined) return rejected
  const captured = { currency: transaction.currency, amount }
  const worth = convert(transaction, amount, context)
  if (worth === undefined) return reject('rate_missing')
  const fee = calculateFee(
    pricing.fees,
    'capture',
    merchant.currency,
    worth,
    transaction.totals.captures.value,
  )
  if (!fitsJson(transaction.refundableValue + worth) || !fitsJson(worth - fee.total)) {
    return rejectField(
      'amount',
      'too_large',
      `${amount} is above the maximum of a line in ${merchant.currency}`,
    )
  }
  const from = { account: 'clearing', money: captured } as const
  const to = { account: 'merchant', money: { currency: merchant.currency, amount: worth } } as const
  const movement = {
    kind: 'capture',
    postings: [...transfer(from, to), ...chargeFee(merchant.currency, fee.total)],
    amount: captured,
    fee,
    description: 'Capture',
    disputeId: null,
  } as const
  const text = chooseDescriptor(descriptor, transaction.descriptor, merchant.descriptor)
  const booked = bookInTrail(transaction, movement, text, context)
  const after: Transaction = {
    ...transaction,
    pendingAmount: transaction.pendingAmount - amount,
    capturedAmount: transaction.capturedAmount + amount,
    ...addValue(transaction, worth),
    ...withEntry(transaction, booked.trailEntry),
  }
  return accept({ transaction: after, ...booked })
}

/** Converts a further part of the amount to the merchant's currency. Undefined without an exchange rate. */
function convert(
  { currency, capturedAmount }: Transaction,
  amount: bigint,
  { merchant, pricing }: OperationContext,
): bigint | undefined {
  const worth = (total: bigint) => exchange(pricing.rates, { currency, amount: total }, merchant.currency)
  const before = worth(capturedAmount)
  const after = worth(capturedAmount + amount)
  return before === undefined || after === undefined ? undefined : after - before
}

export interface RefundInput {
  readonly amount: bigint
  /** A guard: must be the transaction's. */
  readonly currency: string | null
  readonly descriptor: string | null
}

/**
 * Returns a part of the captured amount to the payer, from the merchant's balance, which may become negative.
 * Converts at the average rate of the captures that it takes from, and never at that of the day: refunding
 * everything takes exactly the amount that the captures added. The captured amount stays; refunds and
 * disputes together never exceed it.
 */
export function refundTransaction(
  transaction: Transaction,
  { amount, currency, descriptor }: RefundInput,
  context: OperationContext,
): Result<TransactionChange> {
  const { merchant, pricing, trailLimits } = context
  const rejected =
    checkCurrency(transaction, currency) ??
    checkRefundable(transaction, amount) ??
    checkTrail(transaction, 'refunds', trailLimits)
  if (rejected !== undefined) return rejected
  const refunded = { currency: transaction.currency, amount }
  const { taken: worth, left } = takeValue(transaction, amount)
  const fee = calculateFee(pricing.fees, 'refund', merchant.currency, worth, transaction.totals.refunds.value)
  const from = { account: 'merchant', money: { currency: merchant.currency, amount: worth } } as const
  const to = { account: 'clearing', money: refunded } as const
  const movement = {
    kind: 'refund',
    postings: [...transfer(from, to), ...chargeFee(merchant.currency, fee.total)],
    amount: refunded,
    fee,
    description: 'Refund',
    disputeId: null,
  } as const
  const text = chooseDescriptor(descriptor, transaction.descriptor, merchant.descriptor)
  const booked = bookInTrail(transaction, movement, text, context)
  const after: Transaction = {
    ...transaction,
    refundedAmount: transaction.refundedAmount + amount,
    ...left,
    ...withEntry(transaction, booked.trailEntry),
  }
  return accept({ transaction: after, ...booked })
}

export interface VoidInput {
  readonly amount: bigint
  /** A guard: must be the transaction's. */
  readonly currency: string | null
}

/** Cancels a part of the pending amount, or all of it. No money moves. */
export function voidTransaction(
  transaction: Transaction,
  { amount, currency }: VoidInput,
  context: OperationContext,
): Result<TransactionChange> {
  const rejected =
    checkCurrency(transaction, currency) ??
    checkPending(transaction, amount, 'voided', context.nowMs) ??
    checkTrail(transaction, 'voids', context.trailLimits)
  return rejected ?? accept(cancel(transaction, amount, context))
}

function hasExpired(transaction: Transaction, nowMs: number): boolean {
  return transaction.pendingAmount > 0n && nowMs >= transaction.expiresMs
}

/** Voids the pending amount of an expired authorisation. Returns undefined if nothing is pending. */
export function expireTransaction(
  transaction: Transaction,
  context: OperationContext,
): TransactionChange | undefined {
  if (!hasExpired(transaction, context.nowMs)) return undefined
  return cancel(transaction, transaction.pendingAmount, context)
}

function cancel(transaction: Transaction, amount: bigint, context: OperationContext): TransactionChange {
  const note = { kind: 'void', amount, descriptor: transaction.descriptor } as const
  const trailEntry = createTrailEntry(transaction, note, context)
  const after: Transaction = {
    ...transaction,
    pendingAmount: transaction.pendingAmount - amount,
    voidedAmount: transaction.voidedAmount + amount,
    ...withEntry(transaction, trailEntry),
  }
  return { transaction: after, trailEntry, line: null, ledgerEntry: null }
}
