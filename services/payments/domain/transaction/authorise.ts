import type { JsonObject } from '@tollway/chassis/json.ts'
import type { CardDetails, CardReference, SavedCard } from '../card.ts'
import { chooseDescriptor, type Merchant } from '../merchant.ts'
import { canExchange } from '../money/exchange.ts'
import { accept, type Rejected, type Result, reject, rejectField, rejectProcessing } from '../rejections.ts'
import type { Pricing } from './change.ts'
import type { ProcessingErrorCode } from './processing-errors.ts'
import { noTrail } from './trail.ts'
import type { Tds, Transaction } from './transaction.ts'

/** The data of a new transaction that come from the caller: the payment page or an app. */
export interface AuthorisationInput {
  readonly currency: string
  readonly amount: bigint
  readonly descriptor: string | null
  readonly custom: JsonObject | null
}

export interface CardSource {
  readonly card: CardDetails
  readonly cardReference: CardReference
}

export interface AuthorisationResult {
  readonly error: ProcessingErrorCode | null
  readonly processorReference: string | null
  readonly tds: Tds | null
}

interface Authorisation {
  readonly id: string
  readonly nowMs: number
  readonly merchant: Merchant
  readonly input: AuthorisationInput
  readonly source: CardSource
  readonly result: AuthorisationResult
  /** Whether an app created it without the payer, so that it cannot have 3-D Secure. */
  readonly recurring: boolean
  /** The reference in the payment link; null for a transaction without one. */
  readonly reference: string | null
  readonly lifetimeMs: number
}

/**
 * Rejects an authorisation before the processor is called: for a closed merchant, and for a currency that a
 * capture could not exchange to the merchant's currency (processing error 1).
 */
export function checkAuthorisation(
  merchant: Merchant,
  input: AuthorisationInput,
  { rates }: Pricing,
): Rejected | undefined {
  if (merchant.closedMs !== null) return reject('merchant_closed')
  return canExchange(rates, input.currency, merchant.currency) ? undefined : rejectProcessing(1)
}

/**
 * Returns the card of an earlier transaction or a saved card, which a recurring transaction charges. A record
 * of another merchant is rejected as if it did not exist. A declined transaction is rejected too.
 */
export function recurringSource(merchant: Merchant, earlier: Transaction | SavedCard): Result<CardSource> {
  const isTransaction = 'cardReference' in earlier
  const field = isTransaction ? 'transactionId' : 'cardId'
  if (earlier.merchantId !== merchant.id) {
    return rejectField(field, 'mismatch', 'not found, or not accessible to this app')
  }
  if (!isTransaction) return accept({ card: earlier.card, cardReference: earlier.reference })
  if (earlier.error !== null) return rejectField(field, 'mismatch', 'this transaction was declined')
  return accept({ card: earlier.card, cardReference: earlier.cardReference })
}

/** A declined transaction has its whole amount voided, so that nothing of it can be captured. */
export function recordAuthorisation(authorisation: Authorisation): Transaction {
  const { id, nowMs, merchant, input, source, result, recurring, reference, lifetimeMs } = authorisation
  if (recurring && result.tds !== null)
    throw new Error('3-D Secure cannot be applied to a recurring transaction')
  const approved = result.error === null
  return {
    id,
    merchantId: merchant.id,
    test: merchant.test,
    createdMs: nowMs,
    currency: input.currency,
    amount: input.amount,
    descriptor: chooseDescriptor(input.descriptor, merchant.descriptor),
    pendingAmount: approved ? input.amount : 0n,
    capturedAmount: 0n,
    refundedAmount: 0n,
    voidedAmount: approved ? 0n : input.amount,
    disputedAmount: 0n,
    excessDisputedAmount: 0n,
    refundableValue: 0n,
    refundableRest: 0n,
    card: source.card,
    cardReference: source.cardReference,
    custom: input.custom,
    reference,
    tds: result.tds,
    recurring,
    error: result.error,
    expiresMs: nowMs + lifetimeMs,
    processorReference: result.processorReference,
    trail: [],
    totals: noTrail,
  }
}
