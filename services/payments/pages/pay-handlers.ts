import { setTimeout as pause } from 'node:timers/promises'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { RandomBytes } from '../domain/ids.ts'
import { currencyCodes } from '../domain/money/currencies.ts'
import type { CardInput } from '../processor/processor.ts'
import type { AttemptLimit } from './attempt-limit.ts'
import { readCardFields } from './card-fields.ts'
import type { Checkout, PaymentOutcome } from './checkout.ts'
import {
  bindingOf,
  type FaultyLink,
  hasAmount,
  type Link,
  type PaymentLink,
  queryOf,
  readLink,
} from './link.ts'
import { createSeal, type Purpose, type SealOptions } from './seal.ts'
import { parseAmount } from './texts/money-text.ts'
import { textsOf } from './texts/texts.ts'
import { amountPage } from './views/amount-page.ts'
import { type CardPage, cardPage } from './views/card-page.ts'
import { challengePage } from './views/challenge-page.ts'
import { cardLabel, type Outcome, outcomePage } from './views/outcome-pages.ts'
import { problemPage, unknownOutcomePage } from './views/problem-page.ts'

/**
 * A page, or an address below the pages' folder for the browser to load. `error` is for the log of the
 * operator only, not for the page. It contains no card data.
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
  readonly secrets: SealOptions['secrets']
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
const challengeTicket: Purpose<Ticket> = { name: 'challenge', maxAgeMs: 15 * minuteMs }
/** How long the outcome of a payment can be asked for: as long as idempotency keys are kept. */
const lookTicket: Purpose<Ticket> = { name: 'look', maxAgeMs: 24 * 60 * minuteMs }
/** What processes of the version before sealed, with a card that is not used: it finds the payment alone. */
const oldTicket: Purpose<{ readonly idempotencyKey: string }> = { name: 'step', maxAgeMs: 24 * 60 * minuteMs }
const outcomeSeal: Purpose<Outcome> = { name: 'outcome', maxAgeMs: 24 * 60 * minuteMs }

/**
 * What the payer's browser keeps, sealed, between two pages: the name of the attempt, and the processor's
 * reference, which stands for the card. Any process can go on with it; none has the card any more.
 */
interface Ticket {
  readonly idempotencyKey: string
  readonly authentication: string
  /** The scheme and the last four digits. */
  readonly card: string
}

/** The pages without the server around them. */
export function createPayHandlers(options: PayHandlersOptions): PayHandlers {
  const { checkout, clock, randomBytes, patienceMs = defaultPatienceMs } = options
  const seal = createSeal({ secrets: options.secrets, nowMs: () => clock.nowMs(), randomBytes })

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

  const detailsOf = ({ merchant, currency, amount, reference }: PaymentLink, idempotencyKey: string) => ({
    ...{ merchant, currency, amount, reference, idempotencyKey },
  })

  /** The card form. The card is in memory until the processor has answered, and is needed once. */
  async function begin(link: PaymentLink, idempotencyKey: string, card: CardInput): Promise<PageAnswer> {
    const details = detailsOf(link, idempotencyKey)
    const label = cardLabel(card)
    const unknown = { idempotencyKey, authentication: '', card: label }
    let hasBegun = true
    try {
      // The same form may have paid already: its outcome comes before anything that could be refused by now.
      const found = await findOutcome(details)
      if (found.kind === 'approved' || found.kind === 'declined') return answerTo(link, label, found)
      if (found.kind === 'in-progress') return unknownOutcome(link, unknown)
      hasBegun = found.kind === 'resumable'
      const asked = await checkout.authenticate({ ...details, card })
      if ('authentication' in asked) {
        const ticket = { ...unknown, authentication: asked.authentication }
        return asked.kind === 'challenge' ? askPayer(link, ticket) : settle(link, ticket)
      }
      return hasBegun ? unknownOutcome(link, unknown) : answerTo(link, label, asked)
    } catch (error) {
      if (!hasBegun) throw error
      return { ...unknownOutcome(link, unknown), error }
    }
  }

  function askPayer(link: PaymentLink, ticket: Ticket): PageAnswer {
    const sealed = seal.close(challengeTicket, bindingOf(link), ticket)
    return { status: 200, page: challengePage(link, { ticket: sealed, card: ticket.card }) }
  }

  async function goOn(link: PaymentLink, ticket: Ticket, confirmed: boolean): Promise<PageAnswer> {
    const { idempotencyKey, authentication, card } = ticket
    const unknown = { ...ticket, authentication: '' }
    let hasBegun = true
    try {
      // A double click may have paid already.
      const found = await findOutcome(detailsOf(link, idempotencyKey))
      if (found.kind === 'approved' || found.kind === 'declined') return answerTo(link, card, found)
      if (found.kind === 'in-progress') return unknownOutcome(link, unknown)
      hasBegun = found.kind === 'resumable'
      const answered = await checkout.answerChallenge({ merchant: link.merchant, authentication, confirmed })
      if ('authentication' in answered) {
        return settle(link, { ...ticket, authentication: answered.authentication })
      }
      return hasBegun ? unknownOutcome(link, unknown) : answerTo(link, card, answered)
    } catch (error) {
      if (!hasBegun) throw error
      return { ...unknownOutcome(link, unknown), error }
    }
  }

  /** Finds the outcome. Resumes a payment that began and was not stored. */
  async function lookAgain(link: PaymentLink, ticket: Ticket): Promise<PageAnswer> {
    const { idempotencyKey, authentication, card } = ticket
    try {
      const found = await findOutcome(detailsOf(link, idempotencyKey))
      if (found.kind === 'approved' || found.kind === 'declined') return answerTo(link, card, found)
      if (found.kind === 'resumable' && authentication !== '') return settle(link, ticket)
      if (found.kind !== 'none') return unknownOutcome(link, ticket)
    } catch (error) {
      return { ...unknownOutcome(link, ticket), error }
    }
    const startOver = `./${queryOf(link)}`
    return { status: 200, page: problemPage('not-paid', { locale: link.locale, startOver }) }
  }

  /** Authorises. From here on the outcome is not known until it is stored. */
  async function settle(link: PaymentLink, ticket: Ticket): Promise<PageAnswer> {
    const { idempotencyKey, authentication, card } = ticket
    const request = { ...detailsOf(link, idempotencyKey), authentication }
    try {
      const outcome = await untilSettled(() => checkout.pay(request))
      return outcome.kind === 'in-progress' ? unknownOutcome(link, ticket) : answerTo(link, card, outcome)
    } catch (error) {
      return { ...unknownOutcome(link, ticket), error }
    }
  }

  const findOutcome = (details: Parameters<typeof checkout.find>[0]) =>
    untilSettled(() => checkout.find(details))

  /** A second click comes while the first one's payment still runs: both get the one outcome. */
  async function untilSettled<T extends { readonly kind: string }>(
    ask: () => Promise<T | { readonly kind: 'in-progress'; readonly retryAfterMs: number }>,
  ) {
    const giveUpMs = clock.monotonicMs() + patienceMs
    for (;;) {
      const outcome = await ask()
      if (!('retryAfterMs' in outcome) || clock.monotonicMs() > giveUpMs) return outcome
      await pause(outcome.retryAfterMs)
    }
  }

  function answerTo(
    link: PaymentLink,
    card: string,
    outcome: Exclude<PaymentOutcome, { kind: 'in-progress' }>,
  ): PageAnswer {
    switch (outcome.kind) {
      case 'approved':
        return toOutcome(link, { ...outcome, paidMs: clock.nowMs(), card })
      case 'declined':
        return toOutcome(link, outcome)
      case 'merchant-closed':
        return faultyLinkAnswer({ fault: 'closed', status: 404, locale: link.locale, details: [] })
    }
  }

  function unknownOutcome(link: PaymentLink, ticket: Ticket) {
    const sealed = seal.close(lookTicket, bindingOf(link), ticket)
    return { status: 503, page: unknownOutcomePage(link, sealed) }
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
          // Later steps of this attempt, such as the answer to a challenge, are not counted again.
          const retryAfterMs = options.attempts.take({ address, merchantId: link.merchant.id })
          if (retryAfterMs > 0) return tooManyAttempts(link, retryAfterMs)
          return begin(link, token.idempotencyKey, read.card)
        }
        const message = textsOf(link.locale).card.formError
        return askCard(link, 422, { errors: read.errors, message })
      }),

    confirm: (query, body) =>
      withPayment(query, link => {
        const answer = textIn(body, 'answer')
        const sealed = body['ticket']
        const looked = seal.open(lookTicket, bindingOf(link), sealed)
        if (looked !== undefined && answer === 'again') return lookAgain(link, looked)
        const asked = seal.open(challengeTicket, bindingOf(link), sealed)
        if (asked !== undefined && ['yes', 'no'].includes(answer)) return goOn(link, asked, answer === 'yes')
        const old = seal.open(oldTicket, bindingOf(link), sealed)
        if (old !== undefined) {
          return lookAgain(link, { idempotencyKey: old.idempotencyKey, authentication: '', card: '' })
        }
        const page = problemPage('form-expired', { locale: link.locale, startOver: `./${queryOf(link)}` })
        return { status: 400, page }
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
