import type { Clock } from '@tollway/chassis/clock.ts'
import type { RandomBytes } from '../domain/ids.ts'
import { currencyCodes } from '../domain/money/money.ts'
import type { AttemptLimit } from './attempt-limit.ts'
import { readCardFields, textIn } from './card-fields.ts'
import type { Checkout } from './checkout.ts'
import { bindToPayment, hasAmount, type Link, type PaymentLink, readLink, toQuery } from './link.ts'
import {
  createPageAnswers,
  faultyLinkAnswer,
  formExpired,
  type PageAnswer,
  startOver,
  tooManyAttempts,
} from './page-answers.ts'
import {
  challengeToken,
  formToken,
  inquiryToken,
  outcomeToken,
  PageTokens,
  type PageTokensOptions,
  previousVersionToken,
} from './page-token.ts'
import { createPaymentAttempts } from './payment-attempts.ts'
import { parseAmount } from './texts/money-text.ts'
import { textsFor } from './texts/texts.ts'
import { outcomePage } from './views/outcome-pages.ts'
import { problemPage } from './views/problem-page.ts'

export type FormFields = Readonly<Record<string, unknown>>

export interface PayHandlersOptions {
  readonly checkout: Checkout
  readonly attempts: AttemptLimit
  readonly secrets: PageTokensOptions['secrets']
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  /** How long a request waits for another one that makes the same payment. By default 15 s. */
  readonly settleTimeoutMs?: number
}

const defaultSettleTimeoutMs = 15_000

/** Answers the requests of the payment page, independent of the HTTP server. `query` has no question mark. */
export function createPayHandlers(options: PayHandlersOptions) {
  const { checkout, clock, randomBytes, settleTimeoutMs = defaultSettleTimeoutMs } = options
  const tokens = new PageTokens({ secrets: options.secrets, nowMs: () => clock.nowMs(), randomBytes })
  const answers = createPageAnswers({ checkout, tokens, clock, randomBytes })
  const attempts = createPaymentAttempts({ checkout, answers, clock, settleTimeoutMs })
  const { askCard, askAmount } = answers

  async function withLink(
    query: string,
    use: (link: Link) => PageAnswer | Promise<PageAnswer>,
  ): Promise<PageAnswer> {
    const link = await readLink(query, checkout)
    return 'fault' in link ? faultyLinkAnswer(link) : use(link)
  }

  /** Reads a link that must have an amount. Without one, redirects to the first page. */
  function withPayment(query: string, use: (link: PaymentLink) => PageAnswer | Promise<PageAnswer>) {
    return withLink(query, link => (hasAmount(link) ? use(link) : startOver(link)))
  }

  return {
    /** Answers a link: with the card form, or with the form for the amount if the link has none. */
    open: (query: string) =>
      withLink(query, link => (hasAmount(link) ? askCard(link, 200) : askAmount(link, 200))),

    chooseAmount: (query: string, body: FormFields) =>
      withLink(query, link => {
        const { amount, typed, currency } = readAmount(link, body, checkout)
        if (amount === undefined) return askAmount(link, 422, { amount: typed, currency })
        return { location: toQuery(link, { amount, currency, isPointOfSale: true }) }
      }),

    /** Handles the card form. `address` is the IP address of the payer. */
    pay: (query: string, body: FormFields, address: string) =>
      withPayment(query, link => {
        const form = tokens.decrypt(formToken, bindToPayment(link), body['token'])
        if (form === undefined) return askCard(link, 400, { message: textsFor(link.locale).card.formExpired })
        const read = readCardFields(body, { isTest: link.merchant.test, nowMs: clock.nowMs() })
        if ('card' in read) {
          // Only this step counts, and not later ones of the attempt, such as the answer to a challenge.
          const retryAfterMs = options.attempts.take({ address, merchantId: link.merchant.id })
          if (retryAfterMs > 0) return tooManyAttempts(link, retryAfterMs)
          return attempts.begin(link, form.idempotencyKey, read.card)
        }
        const message = textsFor(link.locale).card.formError
        return askCard(link, 422, { errors: read.errors, message })
      }),

    /** Handles the answer to a challenge, and the button that asks for the outcome again. */
    confirm: (query: string, body: FormFields) =>
      withPayment(query, link => {
        const answer = textIn(body, 'answer')
        const token = body['ticket']
        const inquired = tokens.decrypt(inquiryToken, bindToPayment(link), token)
        if (inquired !== undefined && answer === 'again') return attempts.inquire(link, inquired)
        const challenged = tokens.decrypt(challengeToken, bindToPayment(link), token)
        if (challenged !== undefined && ['yes', 'no'].includes(answer)) {
          return attempts.answerChallenge(link, challenged, answer === 'yes')
        }
        const previous = tokens.decrypt(previousVersionToken, bindToPayment(link), token)
        if (previous !== undefined) {
          const { idempotencyKey } = previous
          return attempts.inquire(link, { idempotencyKey, authentication: '', card: '' })
        }
        return formExpired(link)
      }),

    showOutcome: (query: string, token: string | null) =>
      withPayment(query, link => {
        const outcome = tokens.decrypt(outcomeToken, bindToPayment(link), token)
        if (outcome !== undefined) return { status: 200, page: outcomePage(link, outcome, token ?? '') }
        return { status: 404, page: problemPage('outcome-gone', { locale: link.locale }) }
      }),
  }
}

/**
 * Reads the form for the amount. An invalid amount is undefined. An invalid currency is null, and makes the
 * amount undefined too.
 */
function readAmount(link: Link, body: FormFields, checkout: Checkout) {
  const typed = textIn(body, 'amount')
  const chosen = link.currency ?? textIn(body, 'currency')
  const isAccepted = currencyCodes.includes(chosen) && checkout.acceptsCurrency(link.merchant, chosen)
  const currency = isAccepted ? chosen : null
  const amount = currency === null ? undefined : parseAmount(typed, currency, link.locale)
  return { amount, typed, currency }
}
