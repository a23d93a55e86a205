import type { Clock } from '@tollway/chassis/clock.ts'
import type { RandomBytes } from '../domain/ids.ts'
import { currencyCodes } from '../domain/money/money.ts'
import type { Checkout, PaymentOutcome } from './checkout.ts'
import { bindToPayment, type FaultyLink, type Link, type PaymentLink, toQuery } from './link.ts'
import {
  type AttemptState,
  challengeToken,
  formToken,
  inquiryToken,
  outcomeToken,
  type PageTokens,
} from './page-token.ts'
import type { PageProblem } from './texts/texts.ts'
import { amountPage } from './views/amount-page.ts'
import { type CardPage, cardPage } from './views/card-page.ts'
import { challengePage } from './views/challenge-page.ts'
import type { PageOutcome } from './views/outcome-pages.ts'
import { problemPage, unknownOutcomePage } from './views/problem-page.ts'

/**
 * A page, or the address of the next page, relative to the folder of the pages. `error` is only for the log,
 * and contains no card data.
 */
export type PageAnswer =
  | {
      readonly status: number
      readonly page: string
      readonly error?: unknown
      /** How long the payer must wait before another attempt. */
      readonly retryAfterMs?: number
    }
  | { readonly location: string }

interface PageAnswersOptions {
  readonly checkout: Pick<Checkout, 'acceptsCurrency'>
  readonly tokens: PageTokens
  readonly clock: Clock
  readonly randomBytes: RandomBytes
}

type KnownOutcome = Exclude<PaymentOutcome, { kind: 'in-progress' }>

interface RejectedAmount {
  readonly amount: string
  readonly currency: string | null
}

const idempotencyKeyBytes = 18

export type PageAnswers = ReturnType<typeof createPageAnswers>

/** The pages contain their state in encrypted tokens. */
export function createPageAnswers({ checkout, tokens, clock, randomBytes }: PageAnswersOptions) {
  /** Redirects to the page of the outcome, so that a reload of that page does not submit a form again. */
  function redirectToOutcome(link: PaymentLink, outcome: PageOutcome): PageAnswer {
    const token = tokens.encrypt(outcomeToken, bindToPayment(link), outcome)
    return { location: `outcome${toQuery(link, { outcome: token })}` }
  }

  return {
    /** Shows the card form, with a new idempotency key in the token. */
    askCard(link: PaymentLink, status: number, more: Omit<CardPage, 'token'> = {}): PageAnswer {
      const idempotencyKey = Buffer.from(randomBytes(idempotencyKeyBytes)).toString('base64url')
      const token = tokens.encrypt(formToken, bindToPayment(link), { idempotencyKey })
      return { status, page: cardPage(link, { token, ...more }) }
    },

    askAmount(link: Link, status: number, rejected?: RejectedAmount): PageAnswer {
      const currencies = currencyCodes.filter(code => checkout.acceptsCurrency(link.merchant, code))
      return {
        status,
        page: amountPage(link, { currencies, ...(rejected === undefined ? {} : { rejected }) }),
      }
    },

    askChallenge(link: PaymentLink, state: AttemptState): PageAnswer {
      const token = tokens.encrypt(challengeToken, bindToPayment(link), state)
      return { status: 200, page: challengePage(link, { token, card: state.card }) }
    },

    /**
     * Answers with the outcome: redirects to the receipt or the decline, or shows that the merchant is
     * closed. `card` is the text of `cardLabel`.
     */
    outcome(link: PaymentLink, card: string, outcome: KnownOutcome): PageAnswer {
      switch (outcome.kind) {
        case 'approved':
          return redirectToOutcome(link, { ...outcome, paidMs: clock.nowMs(), card })
        case 'declined':
          return redirectToOutcome(link, outcome)
        case 'merchant-closed':
          return faultyLinkAnswer({ fault: 'closed', status: 404, locale: link.locale, details: [] })
      }
    },

    /** Shows the page with a button that asks for the outcome again. `error` is the cause, for the log. */
    unknownOutcome(link: PaymentLink, state: AttemptState, error?: unknown): PageAnswer {
      const token = tokens.encrypt(inquiryToken, bindToPayment(link), state)
      const page = unknownOutcomePage(link, token)
      return { status: 503, page, ...(error === undefined ? {} : { error }) }
    },
  }
}

export function faultyLinkAnswer({ fault, status, locale, details }: FaultyLink): PageAnswer {
  return { status, page: problemPage(fault, { locale, details }) }
}

export function startOver(link: Link): PageAnswer {
  return { location: toQuery(link) }
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

function pageToStartOver(problem: PageProblem, link: PaymentLink): string {
  return problemPage(problem, { locale: link.locale, startOver: `./${toQuery(link)}` })
}
