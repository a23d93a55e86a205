import type { CardDetails, CardReference } from '../domain/card.ts'
import type { DisputeOutcome } from '../domain/transaction/dispute.ts'
import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'
import type { Tds } from '../domain/transaction/transaction.ts'

/**
 * The interface to the card processor, the company that moves the money of card payments. The service gives
 * each call that changes something an `operationId`. A second call with the same id changes nothing and gets
 * the first answer, so that a call whose answer was lost can be repeated. A rejected promise means that the
 * outcome is unknown, and the caller must repeat the call. A declined payment does not reject the promise.
 *
 * Only `CardInput` contains card numbers and verification codes. No answer, error or event does.
 */
export interface CardProcessor {
  /**
   * Sends the payer's card to the processor, and resolves with whether the payer's bank requires a challenge.
   * The processor keeps the card; later calls name it by the reference in the answer. Authorises nothing.
   */
  authenticate(request: AuthenticationRequest): Promise<Authentication>
  /** Tells the processor whether the payer confirmed the challenge of `authenticate`. */
  answerChallenge(authentication: string, confirmed: boolean): Promise<ChallengeResult>
  /** Reserves an amount on a card. Resolves with an answer whether the payment is approved or declined. */
  authorise(request: AuthorisationRequest): Promise<AuthorisationAnswer>
  /**
   * Cancels an authorisation whose answer was lost, by the operation id. Releases the amount if it was
   * approved, and ensures that no later call with this id is approved.
   */
  cancelAuthorisation(request: CancelRequest): Promise<CancelAnswer>
  capture(request: FollowUpRequest): Promise<void>
  refund(request: FollowUpRequest): Promise<void>
  /** Releases a reserved amount or a part of it, which can then not be captured. */
  void(request: FollowUpRequest): Promise<void>
  /**
   * Resolves with events that the processor reports by itself, such as disputes, the oldest first. Returns an
   * event again until it is acknowledged. The implementation limits the size of the answer that it reads; the
   * caller validates the fields.
   */
  pullEvents(limit: number): Promise<readonly ProcessorEvent[]>
  /** Confirms that these events are stored, so that they are not returned again. Ignores unknown ids. */
  acknowledge(eventIds: readonly string[]): Promise<void>
}

/**
 * The card details that the payer entered. They stay in memory during one request and go only to the
 * processor: never to a log, a database, an answer or a browser.
 */
export interface CardInput {
  /** The number as digits, with or without spaces. */
  readonly number: string
  /** The month of expiry, from 1 to 12. */
  readonly expiryMonth: number | null
  /** The year of expiry as four digits, or as the last two of them. */
  readonly expiryYear: number | null
  /** The card verification code, as the payer typed it. */
  readonly code: string
}

interface Amount {
  readonly amount: bigint
  readonly currency: string
}

export interface AuthenticationRequest extends Amount {
  readonly card: CardInput
}

/**
 * `ready`: the payment can be authorised. `challenge`: the payer must confirm first. `authentication` is the
 * reference for later calls. It is valid for this card, amount and currency, and contains no card number.
 */
export type Authentication =
  | { readonly result: 'ready' | 'challenge'; readonly authentication: string }
  | { readonly result: 'declined'; readonly error: ProcessingErrorCode }

/**
 * The result of a challenge. `authentication` is a new reference, with which the payment can be authorised.
 */
export type ChallengeResult =
  | { readonly result: 'ready'; readonly authentication: string }
  | { readonly result: 'failed'; readonly error: ProcessingErrorCode }

export interface AuthorisationRequest extends Amount {
  readonly operationId: string
  readonly descriptor: string
  readonly source: AuthorisationSource
}

/** The reference of the payer's authentication, or the token of a card for a recurring payment. */
export type AuthorisationSource = { readonly authentication: string } | { readonly token: string }

export type AuthorisationAnswer =
  | {
      readonly approved: true
      /** The processor's reference of the authorisation, for all later calls. */
      readonly reference: string
      readonly tds: Tds | null
      /** Null if a token was charged: the service knows the card of a token. */
      readonly card: KnownCard | null
    }
  | {
      readonly approved: false
      readonly error: ProcessingErrorCode
      /** Null if a token was charged, or if the payer's input was not a valid card. */
      readonly card: KnownCard | null
    }

/** The authorisation to cancel, with the amount and the `operationId` of the authorisation request. */
interface CancelRequest extends Amount {
  readonly operationId: string
}

interface CancelAnswer {
  /** Whether the authorisation had been approved, so that an amount was reserved on the card. */
  readonly wasApproved: boolean
}

export interface KnownCard {
  readonly details: CardDetails
  readonly reference: CardReference
}

export interface FollowUpRequest extends Amount {
  readonly operationId: string
  /** The reference of the authorisation. */
  readonly reference: string
}

/**
 * An event of the processor. `reference` is the reference of the authorisation. An event has the same `id`
 * each time that `pullEvents` returns it.
 */
export type ProcessorEvent =
  | {
      readonly kind: 'fraud'
      readonly id: string
      readonly reference: string
      readonly occurredMs: number
      readonly reason: number | null
    }
  | ({
      readonly kind: 'dispute-raised'
      readonly id: string
      /** The processor's id of the dispute. */
      readonly dispute: string
      readonly reference: string
      readonly occurredMs: number
      readonly reason: string | null
      readonly dueMs: number | null
    } & Amount)
  | {
      readonly kind: 'dispute-resolved'
      readonly id: string
      readonly dispute: string
      readonly reference: string
      readonly occurredMs: number
      readonly outcome: DisputeOutcome
    }
