import type { JsonObject } from '@tollway/chassis/json.ts'
import type { CardDetails, CardReference, SavedCard } from '../merchant/card.ts'
import { chooseDescriptor, type Merchant } from '../merchant/merchant.ts'
import { canExchange } from '../money/exchange.ts'
import { accept, type Rejected, type Result, reject, rejectField, rejectProcessing } from '../rejections.ts'
import type { Pricing } from './change.ts'
import type { ProcessingErrorCode } from './processing-errors.ts'
import { noTrail } from './trail.ts'
import type { Tds, Transaction } from './transaction.ts'

/** How long an authorisation can be captured: the usual time of the card schemes. */
export const authorisationLifetimeMs = 7 * 24 * 60 * 60 * 1000

/** The data of a new transaction, from any caller. */
export interface AuthorisationInput {
  readonly currency: string
  readonly amount: bigint
  readonly descriptor: string | null
  readonly custom: JsonObject | null
}

/** The card to charge. */
export interface CardSource {
  readonly card: CardDetails
  readonly cardReference: CardReference
}

/** The processor's answer to an authorisation. */
export interface AuthorisationResult {
  readonly error: ProcessingErrorCode | null
  readonly processorReference: string | null
  readonly tds: Tds | null
}

export interface Authorisation {
  readonly id: string
  readonly nowMs: number
  readonly merchant: Merchant
  readonly input: AuthorisationInput
  readonly source: CardSource
  readonly result: AuthorisationResult
  /** Whether the server made it from an earlier transaction or a saved card, which is without 3-D Secure. */
  readonly recurring: boolean
  /** The text of a payment link; null for a transaction without one. */
  readonly reference: string | null
  readonly lifetimeMs?: number
}

/**
 * Returns the rejections that need no answer of the processor: a closed merchant, and a currency that cannot be
 * exchanged to the merchant's at the capture (processing error 1).
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
 * Returns the card that a recurring transaction charges: that of an earlier transaction, or a saved card. A
 * source of another merchant is rejected as if it did not exist, and so is a transaction that was declined.
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

/**
 * Returns the transaction of an authorisation. The whole amount of a declined one is voided, so that it
 * can never be captured.
 */
export function recordAuthorisation(authorisation: Authorisation): Transaction {
  const { id, nowMs, merchant, input, source, result, recurring, reference } = authorisation
  const { lifetimeMs = authorisationLifetimeMs } = authorisation
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
