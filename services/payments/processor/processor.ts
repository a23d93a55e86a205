import type { CardDetails, CardReference } from '../domain/merchant/card.ts'
import type { DisputeOutcome } from '../domain/transaction/dispute.ts'
import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'
import type { Tds } from '../domain/transaction/transaction.ts'

/**
 * The contract with the processor of card payments. Each call that changes something has an `operationId`: a
 * second call with the same id changes nothing and gets the first answer, so that a call whose answer was
 * lost can be repeated. A rejected promise means that the outcome is unknown and the same call must be
 * repeated; a decline is an answer.
 *
 * Card numbers and verification codes come in with `CardInput` and are in no answer, error or event.
 */
export interface CardProcessor {
  /**
   * Takes the payer's card and answers whether the payer's bank wants to be asked first. The card is kept by
   * the processor under the reference of the authentication, and is not needed again. Authorises nothing.
   */
  authenticate(request: AuthenticationRequest): Promise<Authentication>
  /** The payer's answer to a challenge of `authenticate`. */
  answerChallenge(authentication: string, confirmed: boolean): Promise<ChallengeResult>
  /** Reserves an amount on a card. */
  authorise(request: AuthorisationRequest): Promise<AuthorisationAnswer>
  /**
   * Cancels an authorisation of which only the operation id is known, because its answer was lost: releases
   * the amount when it was approved, and makes sure that no approval follows under this id.
   */
  cancelAuthorisation(request: CancelRequest): Promise<CancelAnswer>
  /** Takes a part of a reserved amount. */
  capture(request: FollowUpRequest): Promise<void>
  /** Gives a part of a captured amount back. */
  refund(request: FollowUpRequest): Promise<void>
  /** Releases a part of a reserved amount. */
  void(request: FollowUpRequest): Promise<void>
  /**
   * Returns what happened outside of any call, oldest first, repeatedly until it is acknowledged. An adapter
   * limits the bytes of an answer that it reads, and passes fields as they came: the caller checks them.
   */
  pullEvents(limit: number): Promise<readonly ProcessorEvent[]>
  /** Says that these events are stored. Unknown ids are passed over. */
  acknowledge(eventIds: readonly string[]): Promise<void>
}

/**
 * What a payer typed. It is in memory while one request runs, and goes to the processor alone: no log, store,
 * answer or browser gets it back.
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
  /** In minor units. */
  readonly amount: bigint
  readonly currency: string
}

export interface AuthenticationRequest extends Amount {
  readonly card: CardInput
}

/**
 * `ready`: the authorisation can be asked for. `challenge`: the payer has to confirm first. The reference
 * stands for this card, amount and currency, and holds no card number.
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
      /** The processor's name of the authorisation, for all that follows. */
      readonly reference: string
      readonly tds: Tds | null
      /** Null where a token was charged, whose card is known. */
      readonly card: KnownCard | null
    }
  | {
      readonly approved: false
      readonly error: ProcessingErrorCode
      /** Null as above, and where the details were not those of a card. */
      readonly card: KnownCard | null
    }

/** With the amount that was asked for. */
export interface CancelRequest extends Amount {
  readonly operationId: string
}

export interface CancelAnswer {
  /** Whether an amount was reserved on a card until now. */
  readonly wasApproved: boolean
}

export interface KnownCard {
  readonly details: CardDetails
  readonly reference: CardReference
}

export interface FollowUpRequest extends Amount {
  readonly operationId: string
  /** Of the authorisation. */
  readonly reference: string
}

/** `reference` is that of the authorisation. A repeated report of an event has the same id. */
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
      /** The processor's name of the dispute. */
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
