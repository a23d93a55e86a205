import type { Purpose } from './seal.ts'
import type { Outcome } from './views/outcome-pages.ts'

/**
 * The sealed state of an attempt, which the payer's browser keeps between two pages. Any process can continue
 * the attempt with it.
 */
export interface Ticket {
  readonly idempotencyKey: string
  /**
   * The processor's reference of the authentication, which represents the card. Empty without an
   * authentication.
   */
  readonly authentication: string
  /** The scheme and the last four digits. */
  readonly card: string
}

const minuteMs = 60_000

/** Limits the time to fill in the card form. Shorter than the time that idempotency keys are kept. */
export const formToken: Purpose<{ readonly idempotencyKey: string }> = {
  name: 'form',
  maxAgeMs: 60 * minuteMs,
}
/** Limits the time to answer a challenge. */
export const challengeTicket: Purpose<Ticket> = { name: 'challenge', maxAgeMs: 15 * minuteMs }
/** Finds the outcome of a payment, for as long as idempotency keys are kept. */
export const inquiryTicket: Purpose<Ticket> = { name: 'look', maxAgeMs: 24 * 60 * minuteMs }
/** The ticket of processes of the previous version. Its card is not used: it only finds the payment. */
export const previousVersionTicket: Purpose<{ readonly idempotencyKey: string }> = {
  name: 'step',
  maxAgeMs: 24 * 60 * minuteMs,
}
export const outcomeSeal: Purpose<Outcome> = { name: 'outcome', maxAgeMs: 24 * 60 * minuteMs }
