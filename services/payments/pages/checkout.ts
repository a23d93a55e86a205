import type { Merchant } from '../domain/merchant/merchant.ts'
import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'
import type { CardInput } from '../processor/processor.ts'

/** What the payment page asks of the service behind it. */
export interface Checkout {
  /** By the public key of a link. A closed merchant is found too. */
  findMerchant(key: string): Promise<Merchant | undefined>
  /** Whether a card processor moves the merchant's money; without one, no card is asked for. */
  takesPayments(merchant: Merchant): boolean
  /** Whether a payment in this currency could be captured into the merchant's. */
  acceptsCurrency(merchant: Merchant, currency: string): boolean
  /** Hands the card to the processor, which nothing else here keeps. Authorises nothing. */
  authenticate(request: PaymentDetails & { readonly card: CardInput }): Promise<AuthenticationOutcome>
  /** The payer's answer to a challenge. */
  answerChallenge(answer: ChallengeAnswer): Promise<AuthenticationOutcome>
  /**
   * Makes a payment: of all requests with one idempotency key, one at the most is authorised, and the others
   * get its outcome. A rejected promise means that the outcome is not known, and that the same request can be
   * made again.
   */
  pay(request: AttemptDetails & { readonly authentication: string }): Promise<PaymentOutcome>
  /** Finds a payment without making it. */
  find(request: AttemptDetails): Promise<FoundPayment>
}

export interface PaymentDetails {
  readonly merchant: Merchant
  readonly currency: string
  /** In minor units. */
  readonly amount: bigint
}

export interface AttemptDetails extends PaymentDetails {
  /** The text of the link, for the merchant's own lists. */
  readonly reference: string | null
  /** 144 random bits, one for each form that was shown. */
  readonly idempotencyKey: string
}

export interface ChallengeAnswer {
  readonly merchant: Merchant
  /** The processor's reference, of the challenge. */
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
  /** `challenge`: the payer's bank wants to be asked. `authentication` is the processor's reference. */
  { readonly kind: 'ready' | 'challenge'; readonly authentication: string } | Declined | MerchantClosed

export type PaymentOutcome =
  | { readonly kind: 'approved'; readonly transactionId: string }
  | Declined
  /** A request with the same key runs right now. */
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  | MerchantClosed

/** `resumable`: `pay` resumes it. `none`: nothing was authorised, or the approval was voided. */
export type FoundPayment = Exclude<PaymentOutcome, MerchantClosed> | { readonly kind: 'resumable' | 'none' }
