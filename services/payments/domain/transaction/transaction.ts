import type { JsonObject } from '@tollway/chassis/json.ts'
import type { CardDetails, CardReference } from '../merchant/card.ts'
import type { RefundableValue } from '../money/refundable-value.ts'
import { type Rejected, rejectField } from '../rejections.ts'
import type { ProcessingErrorCode } from './processing-errors.ts'
import { addToTotals, type TrailEntry, type TrailLimits, type TrailTotals } from './trail.ts'

/**
 * A card payment. At all times amount = pendingAmount + capturedAmount + voidedAmount, and refundedAmount +
 * disputedAmount − excessDisputedAmount ≤ capturedAmount. All amounts are in minor units of `currency`.
 */
export interface Transaction extends RefundableValue {
  readonly id: string
  readonly merchantId: string
  readonly test: boolean
  /** Milliseconds since the epoch. */
  readonly createdMs: number
  readonly currency: string
  readonly amount: bigint
  readonly descriptor: string
  /** Can be captured or voided. */
  readonly pendingAmount: bigint
  /** All that was ever captured; a refund does not lower it. */
  readonly capturedAmount: bigint
  readonly refundedAmount: bigint
  /** The amount that can never be captured. All of a declined transaction. */
  readonly voidedAmount: bigint
  /** The amount in disputes that run or were lost. One that is won leaves it. */
  readonly disputedAmount: bigint
  /** The part of the disputed amount above what could be refunded when the disputes were raised. */
  readonly excessDisputedAmount: bigint
  readonly card: CardDetails
  /** The processor's reference of the card, for a further payment or a saved card. */
  readonly cardReference: CardReference
  /** Null where the merchant gave none. */
  readonly custom: JsonObject | null
  /** The text of a payment link, shown in the dashboard. */
  readonly reference: string | null
  readonly tds: Tds | null
  /** Whether the server made it from a saved card or an earlier transaction. */
  readonly recurring: boolean
  /** Why it was declined; null for a successful one. */
  readonly error: ProcessingErrorCode | null
  /** The time at which the pending amount becomes void. */
  readonly expiresMs: number
  /** The processor's name of the authorisation; null for a declined one. */
  readonly processorReference: string | null
  /** The newest entries of the trail, or all of them, as they were read. In the order of time. */
  readonly trail: readonly TrailEntry[]
  /** The sums of the whole trail. */
  readonly totals: TrailTotals
}

/** 3-D Secure: the bank did not take part, or did. */
export const tdsResults = ['attempt', 'full'] as const
export type Tds = (typeof tdsResults)[number]

/** Returns the amount that can be refunded. */
export function refundableAmount(transaction: Transaction): bigint {
  const { capturedAmount, refundedAmount, disputedAmount, excessDisputedAmount } = transaction
  return capturedAmount - refundedAmount - disputedAmount + excessDisputedAmount
}

/** Returns the trail and its totals with a further entry. */
export function withEntry(
  { trail, totals }: Transaction,
  entry: TrailEntry,
): Pick<Transaction, 'trail' | 'totals'> {
  return { trail: [...trail, entry], totals: addToTotals(totals, entry) }
}

/** Rejects one more entry of a kind of which the trail has as many as it may have. */
export function checkTrail(
  { totals }: Transaction,
  kind: keyof TrailLimits,
  limits: TrailLimits,
): Rejected | undefined {
  const { captures, refunds, voids } = totals
  const count = { captures: captures.count, refunds: refunds.count, voids }[kind]
  const limit = limits[kind]
  if (count < limit) return undefined
  return rejectField(
    'amount',
    'too_many',
    `the transaction has ${count} ${kind}; at most ${limit} are allowed`,
  )
}

/** Rejects the request if it names another currency than the transaction has. */
export function checkCurrency(transaction: Transaction, currency: string | null): Rejected | undefined {
  if (currency === null || currency === transaction.currency) return undefined
  const message = `${currency} is not the currency of the transaction, ${transaction.currency}`
  return rejectField('currency', 'mismatch', message)
}

/** Rejects an amount above the pending one, and any amount after the authorisation has expired. */
export function checkPending(
  transaction: Transaction,
  amount: bigint,
  verb: 'captured' | 'voided',
  nowMs: number,
): Rejected | undefined {
  const { pendingAmount, expiresMs } = transaction
  if (pendingAmount > 0n && nowMs >= expiresMs) {
    const since = new Date(expiresMs).toISOString()
    return rejectField('amount', 'expired', `the authorisation has expired at ${since}`)
  }
  return checkAtMost(amount, pendingAmount, verb)
}

/**
 * Checks the amount of a refund: at most the captured amount less refunds and disputes. A dispute also counts
 * when it came before the capture.
 */
export function checkRefundable(transaction: Transaction, amount: bigint): Rejected | undefined {
  const { capturedAmount, refundedAmount, disputedAmount } = transaction
  const unclaimed = capturedAmount - refundedAmount - disputedAmount
  return checkAtMost(amount, unclaimed > 0n ? unclaimed : 0n, 'refunded')
}

function checkAtMost(amount: bigint, available: bigint, verb: string): Rejected | undefined {
  if (amount < 1n) return rejectField('amount', 'too_small', `${amount} is below 1`)
  if (amount <= available) return undefined
  return rejectField('amount', 'too_large', `${amount} is more than the ${available} that can be ${verb}`)
}

/** The longest range of time that one search covers. */
export const maxSearchDays = 366

/**
 * The states of parts of a transaction's amount. A transaction can have several: after a partial capture it
 * is both `pending` and `captured`.
 */
export const transactionStatuses = [
  'pending',
  'captured',
  'refunded',
  'voided',
  'disputed',
  /** Declined: none of the others. */
  'declined',
] as const
export type TransactionStatus = (typeof transactionStatuses)[number]

/** A range of time by which a list is filtered. Null filters nothing. */
export interface TimeRange {
  /** Milliseconds since the epoch, inclusive. */
  readonly fromMs: number | null
  /** Exclusive. At most `maxSearchDays` after `fromMs`. */
  readonly toMs: number | null
}

/** The filters of a search for transactions. Null filters nothing. */
export interface TransactionSearch extends TimeRange {
  readonly reference: string | null
  /** Fields of `custom`, at its first level, with their values as text. */
  readonly custom: Readonly<Record<string, string>> | null
  readonly status: TransactionStatus | null
}

/** The filters of a search for lines. Null filters nothing. */
export interface LineSearch extends TimeRange {
  readonly transactionId: string | null
}
