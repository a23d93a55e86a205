import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import { currencyCodes } from '../domain/currencies.ts'
import type { RandomBytes } from '../domain/ids.ts'
import type { CardInput } from '../processor/processor.ts'
import { amountPage } from './amount-page.ts'
import type { AttemptLimit } from './attempt-limit.ts'
import { readCardFields } from './card-fields.ts'
import { type CardPage, cardPage } from './card-page.ts'
import { challengePage } from './challenge-page.ts'
import type { ChallengeAnswer, Checkout, PaymentOutcome } from './checkout.ts'
import {
  bindingOf,
  type FaultyLink,
  hasAmount,
  type Link,
  type PaymentLink,
  queryOf,
  readLink,
} from './link.ts'
import { parseAmount } from './money-text.ts'
import { cardLabel, type Outcome, outcomePage } from './outcome-pages.ts'
import { problemPage, unknownOutcomePage } from './problem-page.ts'
import { createSeal, type Purpose } from './seal.ts'
import { textsOf } from './texts.ts'

/**
 * A page, or the address below the pages' folder that the browser is to load. `error` is for the operator's
 * log: the page does not tell it. It holds no card data.
 */
export type PageAnswer =
  | {
      readonly status: number
      readonly page: string
      readonly error?: unknown
      /** When the same request may be made again. */
      readonly retryAfterMs?: number
    }
  | { readonly location: string }

export type FormFields = Readonly<Record<string, unknown>>

/** What each address of the pages does. `query` is that of the address, without its question mark. */
export interface PayHandlers {
  /** The card form; before it, where the link has no amount, the form that asks for one. */
  open(query: string): Promise<PageAnswer>
  /** The form of the point of sale. */
  chooseAmount(query: string, body: FormFields): Promise<PageAnswer>
  /** The card form. `address` is the payer's. */
  pay(query: string, body: FormFields, address: string): Promise<PageAnswer>
  /** The answer to a challenge, or to the question whether to look again. */
  confirm(query: string, body: FormFields): Promise<PageAnswer>
  /** The receipt or the decline. */
  showOutcome(query: string, sealed: string | null): Promise<PageAnswer>
}

export interface PayHandlersOptions {
  readonly checkout: Checkout
  readonly attempts: AttemptLimit
  /** See `SealOptions`. */
  readonly secret: Uint8Array
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  /** How long a payment that runs already is waited for. */
  readonly patienceMs?: number
}

const minuteMs = 60_000
const defaultPatienceMs = 15_000
/** Of random bytes, for 144 bits. */
const idempotencyKeyBytes = 18

/** How long the card form can be filled in. Shorter than idempotency keys are kept. */
const formToken: Purpose<{ readonly idempotencyKey: string }> = { name: 'form', maxAgeMs: 60 * minuteMs }
/** How long a payer can think about a challenge. */
const stepTicket: Purpose<Ticket> = { name: 'step', maxAgeMs: 15 * minuteMs }
const outcomeSeal: Purpose<Outcome> = { name: 'outcome', maxAgeMs: 24 * 60 * minuteMs }

/** One try to make a payment. */
interface Step {
  readonly idempotencyKey: string
  readonly card: CardInput
  readonly challengeAnswer: ChallengeAnswer | null
}

/**
 * A step that goes on when the payer answers. Only the payer's browser keeps it, in a form field that
 * nobody but this service can read: the card is needed once more after the challenge, and is stored nowhere
 * here.
 */
interface Ticket extends Step {
  /** That the payer is to answer; null where the same step is to be made again. */
  readonly challenge: string | null
}

/** The pages without the server around them. */
export function createPayHandlers(options: PayHandlersOptions): PayHandlers {
  const { checkout, clock, randomBytes, patienceMs = defaultPatienceMs } = options
  const seal = createSeal({ secret: options.secret, nowMs: () => clock.nowMs(), randomBytes })

  async function withLink(query: string, use: (link: Link) => PageAnswer | Promise<PageAnswer>) {
    const link = await readLink(query, checkout)
    return 'fault' in link ? faultyLinkAnswer(link) : use(link)
  }

  /** For addresses that make sense only with an amount; others begin at the beginning. */
  function withPayment(query: string, use: (link: PaymentLink) => PageAnswer | Promise<PageAnswer>) {
    return withLink(query, link => (hasAmount(link) ? use(link) : startOver(link)))
  }

  function askCard(link: PaymentLink, status: number, more: Omit<CardPage, 'token'> = {}): PageAnswer {
    const idempotencyKey = Buffer.from(randomBytes(idempotencyKeyBytes)).toString('base64url')
    const token = seal.close(formToken, bindingOf(link), { idempotencyKey })
    return { status, page: cardPage(link, { token, ...more }) }
  }

  function askAmount(link: Link, status: number, refused?: { amount: string; currency: string | null }) {
    const currencies = currencyCodes.filter(code => checkout.acceptsCurrency(link.merchant, code))
    return { status, page: amountPage(link, { currencies, ...(refused === undefined ? {} : { refused }) }) }
  }

  async function attempt(link: PaymentLink, step: Step): Promise<PageAnswer> {
    try {
      return answerTo(link, step, await settle(link, step))
    } catch (error) {
      return { ...unknownOutcome(link, step), error }
    }
  }

  function answerTo(link: PaymentLink, step: Step, outcome: PaymentOutcome): PageAnswer {
    const card = cardLabel(step.card)
    switch (outcome.kind) {
      case 'approved':
        return toOutcome(link, { ...outcome, paidMs: clock.nowMs(), card })
      case 'declined':
        return toOutcome(link, outcome)
      case 'challenge':
        return {
          status: 200,
          page: challengePage(link, { ticket: ticketOf(link, { ...step, ...outcome }), card }),
        }
      case 'merchant-closed':
        return faultyLinkAnswer({ fault: 'closed', status: 404, locale: link.locale, details: [] })
      case 'in-progress':
        return unknownOutcome(link, step)
    }
  }

  function unknownOutcome(link: PaymentLink, step: Step) {
    return { status: 503, page: unknownOutcomePage(link, ticketOf(link, { ...step, challenge: null })) }
  }

  function ticketOf(link: PaymentLink, { idempotencyKey, card, challengeAnswer, challenge }: Ticket): string {
    return seal.close(stepTicket, bindingOf(link), { idempotencyKey, card, challengeAnswer, challenge })
  }

  /** A second click comes while the first one's payment still runs: both get the one outcome. */
  async function settle(link: PaymentLink, step: Step): Promise<PaymentOutcome> {
    const { merchant, currency, amount, reference } = link
    const giveUpMs = clock.monotonicMs() + patienceMs
    for (;;) {
      const outcome = await checkout.pay({ merchant, currency, amount, reference, ...step })
      if (outcome.kind !== 'in-progress' || clock.monotonicMs() > giveUpMs) return outcome
      await pause(outcome.retryAfterMs)
    }
  }

  /** The browser loads the last page by itself, so that reloading it sends no form again. */
  function toOutcome(link: PaymentLink, outcome: Outcome): PageAnswer {
    const sealed = seal.close(outcomeSeal, bindingOf(link), outcome)
    return { location: `outcome${queryOf(link, { outcome: sealed })}` }
  }

  return {
    open: query => withLink(query, link => (hasAmount(link) ? askCard(link, 200) : askAmount(link, 200))),

    chooseAmount: (query, body) =>
      withLink(query, link => {
        const typed = textIn(body, 'amount')
        const chosen = link.currency ?? textIn(body, 'currency')
        const isAccepted = currencyCodes.includes(chosen) && checkout.acceptsCurrency(link.merchant, chosen)
        const currency = isAccepted ? chosen : null
        const amount = currency === null ? undefined : parseAmount(typed, currency, link.locale)
        if (amount === undefined) return askAmount(link, 422, { amount: typed, currency })
        return { location: queryOf(link, { amount, currency, isPointOfSale: true }) }
      }),

    pay: (query, body, address) =>
      withPayment(query, link => {
        const token = seal.open(formToken, bindingOf(link), body['token'])
        if (token === undefined) return askCard(link, 400, { message: textsOf(link.locale).card.formExpired })
        const read = readCardFields(body, { isTest: link.merchant.test, nowMs: clock.nowMs() })
        if ('card' in read) {
          // What follows of this attempt, such as the answer to a challenge, is not counted once more.
          const retryAfterMs = options.attempts.take({ address, merchantId: link.merchant.id })
          if (retryAfterMs > 0) return tooManyAttempts(link, retryAfterMs)
          return attempt(link, { ...token, card: read.card, challengeAnswer: null })
        }
        const message = textsOf(link.locale).card.formError
        return askCard(link, 422, { errors: read.errors, message })
      }),

    confirm: (query, body) =>
      withPayment(query, link => {
        const ticket = seal.open(stepTicket, bindingOf(link), body['ticket'])
        const answer = textIn(body, 'answer')
        if (ticket === undefined || !['yes', 'no', 'again'].includes(answer)) {
          const page = problemPage('form-expired', { locale: link.locale, startOver: `./${queryOf(link)}` })
          return { status: 400, page }
        }
        const { challenge, ...step } = ticket
        if (challenge === null) return attempt(link, step)
        return attempt(link, { ...step, challengeAnswer: { challenge, confirmed: answer === 'yes' } })
      }),

    showOutcome: (query, sealed) =>
      withPayment(query, link => {
        const outcome = seal.open(outcomeSeal, bindingOf(link), sealed)
        if (outcome !== undefined) return { status: 200, page: outcomePage(link, outcome, sealed ?? '') }
        return { status: 404, page: problemPage('outcome-gone', { locale: link.locale }) }
      }),
  }
}

function startOver(link: Link): PageAnswer {
  return { location: queryOf(link) }
}

function tooManyAttempts(link: PaymentLink, retryAfterMs: number): PageAnswer {
  const page = problemPage('too-many', { locale: link.locale, startOver: `./${queryOf(link)}` })
  return { status: 429, page, retryAfterMs }
}

function faultyLinkAnswer({ fault, status, locale, details }: FaultyLink): PageAnswer {
  return { status, page: problemPage(fault, { locale, details }) }
}

function textIn(body: FormFields, name: string): string {
  const value = Object.hasOwn(body, name) ? body[name] : ''
  return typeof value === 'string' ? value : ''
}
