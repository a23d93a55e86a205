import type { CardDetails, CardReference } from '../domain/merchant/card.ts'
import type { DisputeOutcome } from '../domain/transaction/dispute.ts'
import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'
import type { Tds } from '../domain/transaction/transaction.ts'

/**
 * The interface to the company that moves the money of cards. Each call that changes something carries an
 * `operationId` of the service. A second call with the same id changes nothing and gets the first answer, so
 * that a call whose answer was lost can be repeated. A rejected promise means that the outcome is unknown,
 * and the same call has to be repeated; a decline is an answer.
 *
 * Card numbers and verification codes enter with `CardInput`. No answer, error or event contains them.
 */
export interface CardProcessor {
  /**
   * Passes the payer's card, and resolves with whether the payer's bank requires a challenge. The processor
   * keeps the card under the reference of the authentication; later calls need no card. Authorises nothing.
   */
  authenticate(request: AuthenticationRequest): Promise<Authentication>
  /** Passes the payer's answer to a challenge of `authenticate`. */
  answerChallenge(authentication: string, confirmed: boolean): Promise<ChallengeResult>
  /** Reserves an amount on a card. */
  authorise(request: AuthorisationRequest): Promise<AuthorisationAnswer>
  /**
   * Cancels an authorisation of which only the operation id is known, because its answer was lost: releases
   * the amount when it was approved, and makes sure that no approval follows under this id.
   */
  cancelAuthorisation(request: CancelRequest): Promise<CancelAnswer>
  /** Captures a part of a reserved amount. */
  capture(request: FollowUpRequest): Promise<void>
  /** Refunds a part of a captured amount. */
  refund(request: FollowUpRequest): Promise<void>
  /** Releases a part of a reserved amount. */
  void(request: FollowUpRequest): Promise<void>
  /**
   * Returns events that no call caused, oldest first, until they are acknowledged. An adapter limits the
   * size of the answer that it reads, and does not validate the fields: the caller does.
   */
  pullEvents(limit: number): Promise<readonly ProcessorEvent[]>
  /** Acknowledges that these events are stored. Ignores unknown ids. */
  acknowledge(eventIds: readonly string[]): Promise<void>
}

/**
 * The payer's input. It is in memory during one request and is passed to the processor alone: never to a
 * log, a store, an answer or a browser.
 */
export interface CardInput {
  /** Digits, with or without spaces. */
  readonly number: string
  /** 1 to 12. */
  readonly expiryMonth: number | null
  /** Four digits, or the last two of them. */
  readonly expiryYear: number | null
  /** The card verification code. */
  readonly code: string
}

interface Amount {
  /** The amount in minor units. */
  readonly amount: bigint
  readonly currency: string
}

export interface AuthenticationRequest extends Amount {
  readonly card: CardInput
}

/**
 * `ready`: the payment can be authorised. `challenge`: the payer has to confirm first. The reference
 * represents this card, amount and currency, and contains no card number.
 */
export type Authentication =
  | { readonly result: 'ready' | 'challenge'; readonly authentication: string }
  | { readonly result: 'declined'; readonly error: ProcessingErrorCode }

/** A confirmed challenge has a new reference. */
export type ChallengeResult =
  | { readonly result: 'ready'; readonly authentication: string }
  | { readonly result: 'failed'; readonly error: ProcessingErrorCode }

export interface AuthorisationRequest extends Amount {
  readonly operationId: string
  readonly descriptor: string
  readonly source: AuthorisationSource
}

/** The reference of the payer's authentication, or a token for a recurring payment. */
export type AuthorisationSource = { readonly authentication: string } | { readonly token: string }

export type AuthorisationAnswer =
  | {
      readonly approved: true
      /** The processor's reference of the authorisation, for all later calls. */
      readonly reference: string
      readonly tds: Tds | null
      /** Null if a token was charged, whose card is known. */
      readonly card: KnownCard | null
    }
  | {
      readonly approved: false
      readonly error: ProcessingErrorCode
      /** Null if a token was charged, or if the details were not those of a card. */
      readonly card: KnownCard | null
    }

/** A cancellation, with the amount of the authorisation request. */
interface CancelRequest extends Amount {
  readonly operationId: string
}

interface CancelAnswer {
  /** Whether an amount was reserved on a card until now. */
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

/** `reference` is that of the authorisation. The id of an event is the same each time it is returned. */
export type ProcessorEvent =
  | {
      readonly kind: 'fraud'
      readonly id: string
      readonly reference: string
      /** Milliseconds since the epoch. */
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
