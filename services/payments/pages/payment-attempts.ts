import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { CardInput } from '../processor/processor.ts'
import type { AuthenticationOutcome, Checkout } from './checkout.ts'
import type { PaymentLink } from './link.ts'
import { notPaid, type PageAnswer, type PageAnswers } from './page-answers.ts'
import type { Ticket } from './seal.ts'
import { cardLabel } from './views/outcome-pages.ts'

interface PaymentAttemptsOptions {
  readonly checkout: Checkout
  readonly answers: PageAnswers
  readonly clock: Clock
  /** The longest wait for a payment that is already running. */
  readonly settleTimeoutMs: number
}

/** The steps of a payer's attempt to pay. Each may be repeated: one attempt authorises once at most. */
interface PaymentAttempts {
  /** Passes the card to the processor. The card is in memory until the processor has answered. */
  begin(link: PaymentLink, idempotencyKey: string, card: CardInput): Promise<PageAnswer>
  answerChallenge(link: PaymentLink, ticket: Ticket, confirmed: boolean): Promise<PageAnswer>
  /** Finds the outcome. Resumes a payment that began and was not stored. */
  inquire(link: PaymentLink, ticket: Ticket): Promise<PageAnswer>
}

export function createPaymentAttempts(options: PaymentAttemptsOptions): PaymentAttempts {
  const { checkout, answers, clock, settleTimeoutMs } = options

  const find = (link: PaymentLink, ticket: Ticket) =>
    untilSettled(() => checkout.find(detailsOf(link, ticket)), clock, settleTimeoutMs)

  /**
   * Authenticates the payer and then authorises, unless the attempt has an outcome. The same form may have
   * paid already: its outcome comes before anything that could be rejected by now.
   */
  async function proceed(
    link: PaymentLink,
    ticket: Ticket,
    authenticate: () => Promise<AuthenticationOutcome>,
  ): Promise<PageAnswer> {
    const { card } = ticket
    const unknown = { ...ticket, authentication: '' }
    let hasBegun = true
    try {
      const found = await find(link, ticket)
      if (found.kind === 'approved' || found.kind === 'declined') return answers.outcome(link, card, found)
      if (found.kind === 'in-progress') return answers.unknownOutcome(link, unknown)
      hasBegun = found.kind === 'resumable'
      const asked = await authenticate()
      if ('authentication' in asked) {
        const next = { ...ticket, authentication: asked.authentication }
        return asked.kind === 'challenge' ? answers.askChallenge(link, next) : authorise(options, link, next)
      }
      return hasBegun ? answers.unknownOutcome(link, unknown) : answers.outcome(link, card, asked)
    } catch (error) {
      if (!hasBegun) throw error
      return answers.unknownOutcome(link, unknown, error)
    }
  }

  return {
    begin(link, idempotencyKey, card) {
      const ticket = { idempotencyKey, authentication: '', card: cardLabel(card) }
      return proceed(link, ticket, () => checkout.authenticate({ ...detailsOf(link, ticket), card }))
    },

    answerChallenge(link, ticket, confirmed) {
      const answer = { merchant: link.merchant, authentication: ticket.authentication, confirmed }
      return proceed(link, ticket, () => checkout.answerChallenge(answer))
    },

    async inquire(link, ticket) {
      const { card } = ticket
      try {
        const found = await find(link, ticket)
        if (found.kind === 'approved' || found.kind === 'declined') return answers.outcome(link, card, found)
        if (found.kind === 'resumable' && ticket.authentication !== '')
          return authorise(options, link, ticket)
        if (found.kind !== 'none') return answers.unknownOutcome(link, ticket)
      } catch (error) {
        return answers.unknownOutcome(link, ticket, error)
      }
      return notPaid(link)
    },
  }
}

/** Pays with the authentication of the ticket. The outcome is unknown until it is stored. */
async function authorise(
  { checkout, answers, clock, settleTimeoutMs }: PaymentAttemptsOptions,
  link: PaymentLink,
  ticket: Ticket,
): Promise<PageAnswer> {
  const request = { ...detailsOf(link, ticket), authentication: ticket.authentication }
  try {
    const outcome = await untilSettled(() => checkout.pay(request), clock, settleTimeoutMs)
    if (outcome.kind === 'in-progress') return answers.unknownOutcome(link, ticket)
    return answers.outcome(link, ticket.card, outcome)
  } catch (error) {
    return answers.unknownOutcome(link, ticket, error)
  }
}

function detailsOf({ merchant, currency, amount, reference }: PaymentLink, { idempotencyKey }: Ticket) {
  return { merchant, currency, amount, reference, idempotencyKey }
}

/** Repeats `ask` while the payment of a first click is running: both clicks get the one outcome. */
async function untilSettled<T extends { readonly kind: string }>(
  ask: () => Promise<T | { readonly kind: 'in-progress'; readonly retryAfterMs: number }>,
  clock: Clock,
  settleTimeoutMs: number,
) {
  const deadlineMs = clock.monotonicMs() + settleTimeoutMs
  for (;;) {
    const outcome = await ask()
    if (!('retryAfterMs' in outcome) || clock.monotonicMs() > deadlineMs) return outcome
    await pause(outcome.retryAfterMs)
  }
}
