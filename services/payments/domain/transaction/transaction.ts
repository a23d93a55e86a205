import type { JsonObject } from '@tollway/chassis/json.ts'
import type { CardDetails, CardReference } from '../card.ts'
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
  readonly createdMs: number
  readonly currency: string
  readonly amount: bigint
  readonly descriptor: string
  /** The amount that can still be captured or voided. */
  readonly pendingAmount: bigint
  /** The sum of all captures. Refunds do not lower it. */
  readonly capturedAmount: bigint
  readonly refundedAmount: bigint
  /** The cancelled amount, which can never be captured: for a declined transaction, the whole amount. */
  readonly voidedAmount: bigint
  /** The sum of the open and the lost disputes, without the won ones. */
  readonly disputedAmount: bigint
  /** The sum of `excess` of the open and the lost disputes. */
  readonly excessDisputedAmount: bigint
  readonly card: CardDetails
  /** The processor's reference of the card, which authorises recurring payments. A saved card gets a copy. */
  readonly cardReference: CardReference
  readonly custom: JsonObject | null
  /** The reference in the payment link, shown in the dashboard; null for a transaction without one. */
  readonly reference: string | null
  readonly tds: Tds | null
  /** Whether an app created it from a saved card or an earlier transaction, without the payer. */
  readonly recurring: boolean
  /** Why the transaction was declined; null for a successful one. */
  readonly error: ProcessingErrorCode | null
  /** The time from which the pending amount can no longer be captured, in milliseconds since the epoch. */
  readonly expiresMs: number
  /** The processor's reference of the authorisation; null if it was declined. */
  readonly processorReference: string | null
  /** The trail entries that were read, in the order of time: the newest ones or all, as the reader asked. */
  readonly trail: readonly TrailEntry[]
  readonly totals: TrailTotals
}

/** The results of 3-D Secure. `attempt`: the payer's bank did not take part. `full`: the payer confirmed. */
export const tdsResults = ['attempt', 'full'] as const
export type Tds = (typeof tdsResults)[number]

/**
 * Returns the part of the captured amount that neither refunds nor disputes have taken. The excess of a
 * dispute takes nothing of it, but lowers what `checkRefundable` allows.
 */
export function remainingAmount(transaction: Transaction): bigint {
  const { capturedAmount, refundedAmount, disputedAmount, excessDisputedAmount } = transaction
  return capturedAmount - refundedAmount - disputedAmount + excessDisputedAmount
}

export function withEntry(
  { trail, totals }: Transaction,
  entry: TrailEntry,
): Pick<Transaction, 'trail' | 'totals'> {
  return { trail: [...trail, entry], totals: addToTotals(totals, entry) }
}

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

/** Rejects a currency that is not the transaction's. Accepts null. */
export function checkCurrency(transaction: Transaction, currency: string | null): Rejected | undefined {
  if (currency === null || currency === transaction.currency) return undefined
  const message = `${currency} is not the currency of the transaction, ${transaction.currency}`
  return rejectField('currency', 'mismatch', message)
}

/** Rejects an amount below 1 or above the pending one, and any amount after the authorisation expired. */
export function checkPending(
  transaction: Transaction,
  amount: bigint,
  verb: 'captured' | 'voided',
  nowMs: number,
): Rejected | undefined {
  const { pendingAmount, expiresMs } = transaction
  if (pendingAmount > 0n && nowMs >= expiresMs) {
    const end = new Date(expiresMs).toISOString()
    return rejectField('amount', 'expired', `the authorisation expired at ${end}`)
  }
  return checkAtMost(amount, pendingAmount, verb)
}

/**
 * Rejects a refund below 1, or above the captured amount less refunds and disputes. Disputes count in full,
 * also disputes that were raised before the capture.
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

/** The longest range of time that one search covers, in days. */
export const maxSearchDays = 366

/**
 * The statuses of a transaction, which can have several: after a partial capture it is both `pending` and
 * `captured`.
 */
export const transactionStatuses = [
  'pending',
  'captured',
  'refunded',
  'voided',
  'disputed',
  /** The whole transaction was declined. It has no other status. */
  'declined',
] as const
export type TransactionStatus = (typeof transactionStatuses)[number]

/** The times between which the elements of a list were created. Null sets no limit. */
export interface TimeRange {
  /** Milliseconds since the epoch, inclusive. */
  readonly fromMs: number | null
  /** Milliseconds since the epoch, exclusive. At most `maxSearchDays` after `fromMs`. */
  readonly toMs: number | null
}

/** The filters of a search for transactions. A filter that is null matches all. */
export interface TransactionSearch extends TimeRange {
  readonly reference: string | null
  /** Fields at the first level of `custom`, with the values that they must have, as text. */
  readonly custom: Readonly<Record<string, string>> | null
  readonly status: TransactionStatus | null
}

export interface LineSearch extends TimeRange {
  readonly transactionId: string | null
}
