import type { Merchant } from '../domain/merchant/merchant.ts'
import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'
import type { CardInput } from '../processor/processor.ts'

/** The operations of the payments service that the payment page needs. */
export interface Checkout {
  /** Finds a merchant by the public key of a link. A closed merchant is found too. */
  findMerchant(key: string): Promise<Merchant | undefined>
  /** Whether the merchant has a card processor. Without one, the page does not ask for a card. */
  takesPayments(merchant: Merchant): boolean
  /** Whether a payment in this currency can be captured in the merchant's currency. */
  acceptsCurrency(merchant: Merchant, currency: string): boolean
  /** Passes the card to the processor; the service does not keep it. Authorises nothing. */
  authenticate(request: PaymentDetails & { readonly card: CardInput }): Promise<AuthenticationOutcome>
  /** Passes the payer's answer to a challenge to the processor. */
  answerChallenge(answer: ChallengeAnswer): Promise<AuthenticationOutcome>
  /**
   * Makes a payment. Of all requests with one idempotency key, at most one is authorised, and the others get
   * its outcome. A rejected promise means that the outcome is unknown; the same request can be repeated.
   */
  pay(request: AttemptDetails & { readonly authentication: string }): Promise<PaymentOutcome>
  /** Finds a payment without making it. */
  find(request: AttemptDetails): Promise<FoundPayment>
}

export interface PaymentDetails {
  readonly merchant: Merchant
  readonly currency: string
  /** The amount in minor units. */
  readonly amount: bigint
}

export interface AttemptDetails extends PaymentDetails {
  /** The text of the link, for the merchant's own lists. */
  readonly reference: string | null
  /** 144 random bits, one for each form that was shown. */
  readonly idempotencyKey: string
}

interface ChallengeAnswer {
  readonly merchant: Merchant
  /** The processor's reference of the challenge. */
  readonly authentication: string
  readonly confirmed: boolean
}

interface Declined {
  readonly kind: 'declined'
  readonly error: ProcessingErrorCode
}

/** The merchant was closed since the link was opened. */
interface MerchantClosed {
  readonly kind: 'merchant-closed'
}

export type AuthenticationOutcome =
  /** `challenge`: the payer's bank requires one. `authentication` is the processor's reference. */
  { readonly kind: 'ready' | 'challenge'; readonly authentication: string } | Declined | MerchantClosed

export type PaymentOutcome =
  | { readonly kind: 'approved'; readonly transactionId: string }
  | Declined
  /** Another request with the same key is running. */
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  | MerchantClosed

/** `resumable`: `pay` resumes it. `none`: nothing was authorised, or the approval was voided. */
type FoundPayment = Exclude<PaymentOutcome, MerchantClosed> | { readonly kind: 'resumable' | 'none' }
