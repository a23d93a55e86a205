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
import { chooseDescriptor, type Merchant } from '../merchant.ts'
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

export interface OperationContext {
  readonly merchant: Merchant
  readonly pricing: Pricing
  readonly trailLimits: TrailLimits
  readonly nowMs: number
  readonly nextId: () => string
}

export interface Pricing {
  readonly fees: FeeTable
  readonly rates: RateTable
}

/** The result of an operation on a transaction. All its records are stored in one database transaction. */
export interface TransactionChange {
  readonly transaction: Transaction
  /** Null for a dispute that is raised: the trail gets an entry only when the dispute is resolved. */
  readonly trailEntry: TrailEntry | null
  /** Null if the merchant's balance does not change. */
  readonly line: Line | null
  /** Null for a void, which moves no money. */
  readonly ledgerEntry: LedgerEntry | null
}

export interface Movement {
  readonly kind: EntryKind & LineKind
  readonly postings: readonly Posting[]
  /** The amount in the transaction's currency; for a payout, in the merchant's. */
  readonly amount: Money
  readonly fee: Fee
  readonly description: string
  readonly disputeId: string | null
}

/** `balance` of the line is the sum that the entry posts to the merchant. */
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

interface CaptureOrRefund {
  readonly kind: 'capture' | 'refund'
  readonly amount: bigint
  /** The value of `amount` in the merchant's currency. */
  readonly worth: bigint
  readonly fee: Fee
  readonly descriptor: string | null
}

/** Books a capture from the processor's account to the merchant's, or a refund in the other direction. */
function bookInTrail(
  transaction: Transaction,
  { kind, amount, worth, fee, descriptor }: CaptureOrRefund,
  context: OperationContext,
): { readonly trailEntry: TrailEntry; readonly line: Line; readonly ledgerEntry: LedgerEntry } {
  const { merchant } = context
  const atProcessor = { account: 'clearing', money: { currency: transaction.currency, amount } } as const
  const atMerchant = { account: 'merchant', money: { currency: merchant.currency, amount: worth } } as const
  const moved = kind === 'capture' ? transfer(atProcessor, atMerchant) : transfer(atMerchant, atProcessor)
  const movement = {
    kind,
    postings: [...moved, ...chargeFee(merchant.currency, fee.total)],
    amount: atProcessor.money,
    fee,
    description: kind === 'capture' ? 'Capture' : 'Refund',
    disputeId: null,
  }
  const { line, ledgerEntry } = book(movement, transaction.id, context)
  const fields = {
    kind,
    amount,
    descriptor: chooseDescriptor(descriptor, transaction.descriptor, merchant.descriptor),
    balance: line.balance,
    fee,
    lineId: line.id,
  }
  return { trailEntry: createTrailEntry(transaction, fields, context), line, ledgerEntry }
}

/** The fields of a trail entry that depend on the operation. */
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
  fields: TrailFields,
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
    ...fields,
  }
}

export interface CaptureInput {
  readonly amount: bigint
  /** If not null, must equal the currency of the transaction; otherwise the operation is rejected. */
  readonly currency: string | null
  readonly descriptor: string | null
}

/**
 * Captures the pending amount, or a part of it. The amount is converted at the present rate and added to the
 * merchant's balance, less the fee. All captures together never exceed the transaction's amount. The value of
 * all captures is rounded together, so that at one rate several captures are worth as much as one of the
 * whole amount.
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
  const booked = bookInTrail(transaction, { kind: 'capture', amount, worth, fee, descriptor }, context)
  const after: Transaction = {
    ...transaction,
    pendingAmount: transaction.pendingAmount - amount,
    capturedAmount: transaction.capturedAmount + amount,
    ...addValue(transaction, worth),
    ...withEntry(transaction, booked.trailEntry),
  }
  return accept({ transaction: after, ...booked })
}

/** Returns the difference that `amount` makes to the value of all captures; undefined without a rate. */
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

export type RefundInput = CaptureInput

/**
 * Returns a part of the captured amount to the payer. The amount is taken from the merchant's balance, which
 * may become negative. Converts at the average rate of the captures, not at the present rate, so that refunds
 * of everything subtract exactly what the captures added before fees. A refund does not lower
 * `capturedAmount`; refunds and disputes together cannot exceed it.
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
  const { taken: worth, left } = takeValue(transaction, amount)
  const fee = calculateFee(pricing.fees, 'refund', merchant.currency, worth, transaction.totals.refunds.value)
  const booked = bookInTrail(transaction, { kind: 'refund', amount, worth, fee, descriptor }, context)
  const after: Transaction = {
    ...transaction,
    refundedAmount: transaction.refundedAmount + amount,
    ...left,
    ...withEntry(transaction, booked.trailEntry),
  }
  return accept({ transaction: after, ...booked })
}

export type VoidInput = Omit<CaptureInput, 'descriptor'>

/** Cancels the pending amount or a part of it, which can then not be captured. No money moves. */
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

/** Returns undefined if the authorisation has not expired, or if no amount is pending. */
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
