import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { CardInput } from '../processor/processor.ts'
import type { AuthenticationOutcome, Checkout } from './checkout.ts'
import type { PaymentLink } from './link.ts'
import { notPaid, type PageAnswer, type PageAnswers } from './page-answers.ts'
import type { AttemptState } from './page-token.ts'
import { cardLabel } from './views/outcome-pages.ts'

interface PaymentAttemptsOptions {
  readonly checkout: Checkout
  readonly answers: PageAnswers
  readonly clock: Clock
  /** How long a request waits for the outcome of another request that makes the same payment. */
  readonly settleTimeoutMs: number
}

/**
 * Creates the steps of an attempt to pay. Each may be repeated, because an attempt authorises at most once.
 */
export function createPaymentAttempts(options: PaymentAttemptsOptions) {
  const { checkout, answers, clock, settleTimeoutMs } = options

  const find = (link: PaymentLink, state: AttemptState) =>
    waitUntilFinished(() => checkout.find(attemptDetails(link, state)), clock, settleTimeoutMs)

  /**
   * Authenticates the payer and authorises the payment. If the attempt has an outcome already, because the
   * form was submitted twice, answers with that outcome.
   */
  async function proceed(
    link: PaymentLink,
    state: AttemptState,
    authenticate: () => Promise<AuthenticationOutcome>,
  ): Promise<PageAnswer> {
    const { card } = state
    const unknown = { ...state, authentication: '' }
    let hasBegun = true
    try {
      const found = await find(link, state)
      if (found.kind === 'approved' || found.kind === 'declined') return answers.outcome(link, card, found)
      if (found.kind === 'in-progress') return answers.unknownOutcome(link, unknown)
      hasBegun = found.kind === 'resumable'
      const asked = await authenticate()
      if ('authentication' in asked) {
        const next = { ...state, authentication: asked.authentication }
        return asked.kind === 'challenge' ? answers.askChallenge(link, next) : authorise(options, link, next)
      }
      return hasBegun ? answers.unknownOutcome(link, unknown) : answers.outcome(link, card, asked)
    } catch (error) {
      if (!hasBegun) throw error
      return answers.unknownOutcome(link, unknown, error)
    }
  }

  return {
    /** The card stays in memory until the processor has answered. */
    begin(link: PaymentLink, idempotencyKey: string, card: CardInput): Promise<PageAnswer> {
      const state = { idempotencyKey, authentication: '', card: cardLabel(card) }
      return proceed(link, state, () => checkout.authenticate({ ...attemptDetails(link, state), card }))
    },

    answerChallenge(link: PaymentLink, state: AttemptState, confirmed: boolean): Promise<PageAnswer> {
      const answer = { merchant: link.merchant, authentication: state.authentication, confirmed }
      return proceed(link, state, () => checkout.answerChallenge(answer))
    },

    /** Continues a payment that was interrupted before it was stored. */
    async inquire(link: PaymentLink, state: AttemptState): Promise<PageAnswer> {
      const { card } = state
      try {
        const found = await find(link, state)
        if (found.kind === 'approved' || found.kind === 'declined') return answers.outcome(link, card, found)
        if (found.kind === 'resumable' && state.authentication !== '') return authorise(options, link, state)
        if (found.kind !== 'none') return answers.unknownOutcome(link, state)
      } catch (error) {
        return answers.unknownOutcome(link, state, error)
      }
      return notPaid(link)
    },
  }
}

/** After an error, answers that the outcome is unknown. */
async function authorise(
  { checkout, answers, clock, settleTimeoutMs }: PaymentAttemptsOptions,
  link: PaymentLink,
  state: AttemptState,
): Promise<PageAnswer> {
  const request = { ...attemptDetails(link, state), authentication: state.authentication }
  try {
    const outcome = await waitUntilFinished(() => checkout.pay(request), clock, settleTimeoutMs)
    if (outcome.kind === 'in-progress') return answers.unknownOutcome(link, state)
    return answers.outcome(link, state.card, outcome)
  } catch (error) {
    return answers.unknownOutcome(link, state, error)
  }
}

function attemptDetails(
  { merchant, currency, amount, reference }: PaymentLink,
  { idempotencyKey }: AttemptState,
) {
  return { merchant, currency, amount, reference, idempotencyKey }
}

/** Repeats `ask` while another request makes the same payment, so that two clicks get the same outcome. */
async function waitUntilFinished<T extends { readonly kind: string }>(
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
