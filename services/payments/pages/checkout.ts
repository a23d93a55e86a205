import type { Merchant } from '../domain/merchant.ts'
import type { ProcessingErrorCode } from '../domain/processing-errors.ts'
import type { CardInput } from '../processor/processor.ts'

/** What the payment page asks of the service behind it. */
export interface Checkout {
  /** By the public key of a link. A closed merchant is found too. */
  findMerchant(key: string): Promise<Merchant | undefined>
  /** Whether a payment in this currency could be captured into the merchant's. */
  acceptsCurrency(merchant: Merchant, currency: string): boolean
  /**
   * Makes a payment, or finds what became of it: of all requests with one idempotency key, one at the most is
   * authorised, and the others get its outcome. A rejected promise means that the outcome is not known, and
   * that the same request can be made again.
   */
  pay(request: PaymentRequest): Promise<PaymentOutcome>
}

export interface PaymentRequest {
  readonly merchant: Merchant
  readonly currency: string
  /** In minor units. */
  readonly amount: bigint
  /** The text of the link, for the merchant's own lists. */
  readonly reference: string | null
  /** Never kept, logged or answered by whoever gets it. */
  readonly card: CardInput
  /** 144 random bits, one for each form that was shown. */
  readonly idempotencyKey: string
  /** The payer's answer to the challenge that an earlier request with this key led to. */
  readonly challengeAnswer: ChallengeAnswer | null
}

export interface ChallengeAnswer {
  readonly challenge: string
  readonly confirmed: boolean
}

export type PaymentOutcome =
  | { readonly kind: 'approved'; readonly transactionId: string }
  | { readonly kind: 'declined'; readonly error: ProcessingErrorCode }
  /** The payer's bank wants to be asked: the request is to come again with the answer. */
  | { readonly kind: 'challenge'; readonly challenge: string }
  /** A request with the same key runs right now. */
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  /** The merchant was closed since the link was looked at. */
  | { readonly kind: 'merchant-closed' }
