import type { Merchant } from '../domain/merchant.ts'
import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'
import type { CardInput } from '../processor/processor.ts'

/** The operations of the payments service that the payment page needs. */
export interface Checkout {
  /** Resolves with the merchant with this public key, even if the merchant is closed. */
  findMerchant(key: string): Promise<Merchant | undefined>
  /** Returns whether a card processor is configured for the merchant. If not, the page asks for no card. */
  takesPayments(merchant: Merchant): boolean
  /** Returns whether a capture can exchange this currency to the merchant's currency. */
  acceptsCurrency(merchant: Merchant, currency: string): boolean
  /** Sends the card to the processor; the service does not store it. Authorises nothing. */
  authenticate(request: PaymentDetails & { readonly card: CardInput }): Promise<AuthenticationOutcome>
  answerChallenge(answer: ChallengeAnswer): Promise<AuthenticationOutcome>
  /**
   * Makes a payment. Requests with the same idempotency key make at most one payment, and all get its
   * outcome. A rejected promise means that the outcome is unknown; the caller can repeat the request.
   */
  pay(request: AttemptDetails & { readonly authentication: string }): Promise<PaymentOutcome>
  /** Resolves with the state of a payment. Does not call the processor. */
  find(request: AttemptDetails): Promise<FoundPayment>
}

export interface PaymentDetails {
  readonly merchant: Merchant
  readonly currency: string
  readonly amount: bigint
}

export interface AttemptDetails extends PaymentDetails {
  /** The reference in the payment link, by which the merchant recognises the payment; null without one. */
  readonly reference: string | null
  /** 144 random bits in base64url. Each card form that is shown has its own key. */
  readonly idempotencyKey: string
}

interface ChallengeAnswer {
  readonly merchant: Merchant
  /** The processor's reference, from the outcome `challenge`. */
  readonly authentication: string
  readonly confirmed: boolean
}

interface Declined {
  readonly kind: 'declined'
  readonly error: ProcessingErrorCode
}

/** The merchant was closed after the payer opened the link. */
interface MerchantClosed {
  readonly kind: 'merchant-closed'
}

export type AuthenticationOutcome =
  /**
   * `ready`: the payment can be authorised. `challenge`: the payer's bank requires a confirmation first.
   * `authentication` is the processor's reference for the next call.
   */
  { readonly kind: 'ready' | 'challenge'; readonly authentication: string } | Declined | MerchantClosed

export type PaymentOutcome =
  | { readonly kind: 'approved'; readonly transactionId: string }
  | Declined
  /** Another request with the same idempotency key is running. */
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  | MerchantClosed

/**
 * `resumable`: the payment was interrupted, and `pay` continues it. `none`: nothing was authorised, or the
 * authorisation was cancelled.
 */
type FoundPayment = Exclude<PaymentOutcome, MerchantClosed> | { readonly kind: 'resumable' | 'none' }
