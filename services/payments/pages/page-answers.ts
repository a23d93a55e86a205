import type { Clock } from '@tollway/chassis/clock.ts'
import type { RandomBytes } from '../domain/ids.ts'
import { currencyCodes } from '../domain/money/money.ts'
import type { Checkout, PaymentOutcome } from './checkout.ts'
import { bindingOf, type FaultyLink, type Link, type PaymentLink, queryOf } from './link.ts'
import { challengeTicket, formToken, inquiryTicket, outcomeSeal, type Seal, type Ticket } from './seal.ts'
import type { Problem } from './texts/texts.ts'
import { amountPage } from './views/amount-page.ts'
import { type CardPage, cardPage } from './views/card-page.ts'
import { challengePage } from './views/challenge-page.ts'
import type { Outcome } from './views/outcome-pages.ts'
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
      /** The delay before the same request may be repeated. */
      readonly retryAfterMs?: number
    }
  | { readonly location: string }

interface PageAnswersOptions {
  readonly checkout: Pick<Checkout, 'acceptsCurrency'>
  readonly seal: Seal
  readonly clock: Clock
  readonly randomBytes: RandomBytes
}

/** The answers that depend on a link and carry sealed state. */
export interface PageAnswers {
  /** The card form, with a new idempotency key. */
  askCard(link: PaymentLink, status: number, more?: Omit<CardPage, 'token'>): PageAnswer
  /** The form of the point of sale. */
  askAmount(link: Link, status: number, rejected?: RejectedAmount): PageAnswer
  askChallenge(link: PaymentLink, ticket: Ticket): PageAnswer
  /** The receipt, the decline, or the page of a closed merchant. `card` is the label of the card. */
  outcome(link: PaymentLink, card: string, outcome: KnownOutcome): PageAnswer
  /** The page with which the payer asks for the outcome again. `error` is its cause, for the log. */
  unknownOutcome(link: PaymentLink, ticket: Ticket, error?: unknown): PageAnswer
}

type KnownOutcome = Exclude<PaymentOutcome, { kind: 'in-progress' }>

interface RejectedAmount {
  readonly amount: string
  readonly currency: string | null
}

/** The number of random bytes of an idempotency key: 144 bits. */
const idempotencyKeyBytes = 18

export function createPageAnswers({ checkout, seal, clock, randomBytes }: PageAnswersOptions): PageAnswers {
  /** The browser loads the last page by itself, so that a reload sends no form again. */
  function redirectToOutcome(link: PaymentLink, outcome: Outcome): PageAnswer {
    const sealed = seal.close(outcomeSeal, bindingOf(link), outcome)
    return { location: `outcome${queryOf(link, { outcome: sealed })}` }
  }

  return {
    askCard(link, status, more = {}) {
      const idempotencyKey = Buffer.from(randomBytes(idempotencyKeyBytes)).toString('base64url')
      const token = seal.close(formToken, bindingOf(link), { idempotencyKey })
      return { status, page: cardPage(link, { token, ...more }) }
    },

    askAmount(link, status, rejected) {
      const currencies = currencyCodes.filter(code => checkout.acceptsCurrency(link.merchant, code))
      return {
        status,
        page: amountPage(link, { currencies, ...(rejected === undefined ? {} : { rejected }) }),
      }
    },

    askChallenge(link, ticket) {
      const sealed = seal.close(challengeTicket, bindingOf(link), ticket)
      return { status: 200, page: challengePage(link, { ticket: sealed, card: ticket.card }) }
    },

    outcome(link, card, outcome) {
      switch (outcome.kind) {
        case 'approved':
          return redirectToOutcome(link, { ...outcome, paidMs: clock.nowMs(), card })
        case 'declined':
          return redirectToOutcome(link, outcome)
        case 'merchant-closed':
          return faultyLinkAnswer({ fault: 'closed', status: 404, locale: link.locale, details: [] })
      }
    },

    unknownOutcome(link, ticket, error) {
      const sealed = seal.close(inquiryTicket, bindingOf(link), ticket)
      const page = unknownOutcomePage(link, sealed)
      return { status: 503, page, ...(error === undefined ? {} : { error }) }
    },
  }
}

export function faultyLinkAnswer({ fault, status, locale, details }: FaultyLink): PageAnswer {
  return { status, page: problemPage(fault, { locale, details }) }
}

/** Redirects to the first page of a link. */
export function startOver(link: Link): PageAnswer {
  return { location: queryOf(link) }
}

export function tooManyAttempts(link: PaymentLink, retryAfterMs: number): PageAnswer {
  return { status: 429, page: pageToStartOver('too-many', link), retryAfterMs }
}

export function formExpired(link: PaymentLink): PageAnswer {
  return { status: 400, page: pageToStartOver('form-expired', link) }
}

export function notPaid(link: PaymentLink): PageAnswer {
  return { status: 200, page: pageToStartOver('not-paid', link) }
}

function pageToStartOver(problem: Problem, link: PaymentLink): string {
  return problemPage(problem, { locale: link.locale, startOver: `./${queryOf(link)}` })
}
