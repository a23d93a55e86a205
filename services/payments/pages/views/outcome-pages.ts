import type { CardScheme } from '../../domain/card.ts'
import type { Locale } from '../../domain/input/request-bodies.ts'
import type { ProcessingErrorCode } from '../../domain/transaction/processing-errors.ts'
import { detectScheme } from '../../processor/card-number.ts'
import type { CardInput } from '../../processor/processor.ts'
import { linkSummary, merchantName, type PaymentLink, shopReturnUrl, toQuery } from '../link.ts'
import { formatPayment } from '../texts/money-text.ts'
import { textsFor } from '../texts/texts.ts'
import { html, type Markup } from './html.ts'
import { layOut } from './layout.ts'

/** The outcome of a payment. The address of the outcome page contains it in a token. */
export type PageOutcome =
  | {
      readonly kind: 'approved'
      readonly transactionId: string
      readonly paidMs: number
      readonly card: string
    }
  | { readonly kind: 'declined'; readonly error: ProcessingErrorCode }

/** How long the receipt is shown before the browser opens the shop. */
const continueDelayMs = 8000

const schemeNames: Readonly<Record<CardScheme, string>> = { visa: 'Visa', mastercard: 'Mastercard' }

/** Returns the text for a card on a receipt: the scheme and the last four digits. */
export function cardLabel({ number }: CardInput): string {
  const scheme = detectScheme(number)
  return `${scheme === undefined ? '' : schemeNames[scheme]} •••• ${number.slice(-4)}`.trim()
}

export function outcomePage(link: PaymentLink, outcome: PageOutcome, token: string): string {
  const { merchant, locale } = link
  const texts = textsFor(locale)
  const isApproved = outcome.kind === 'approved'
  return layOut({
    locale,
    title: isApproved ? texts.receipt.title : texts.declined.title,
    shop: merchantName(merchant),
    isTest: merchant.test,
    languageLink: other => `./outcome${toQuery(link, { locale: other, outcome: token })}`,
    main: isApproved ? receipt(link, outcome) : declined(link, outcome.error),
  })
}

function receipt(
  link: PaymentLink,
  { transactionId, paidMs, card }: PageOutcome & { kind: 'approved' },
): Markup {
  const { merchant, locale, text, reference } = link
  const texts = textsFor(locale)
  const { receipt: own } = texts
  return html`<div class="sheet narrow">
<section class="details outcome">
${tick}
<h1>${own.heading}</h1>
<p class="amount">${formatPayment(link, locale)}</p>
${text !== null && html`<p class="text">${text}</p>`}
<dl>
<div><dt>${own.to}</dt><dd>${merchantName(merchant)}</dd></div>
${reference !== null && html`<div><dt>${texts.reference}</dt><dd>${reference}</dd></div>`}
<div><dt>${own.card}</dt><dd>${card}</dd></div>
<div><dt>${own.date}</dt><dd>${dateText(paidMs, locale)}</dd></div>
<div><dt>${own.transaction}</dt><dd class="id">${transactionId}</dd></div>
</dl>
${next(link, transactionId)}
</section>
</div>`
}

/** Renders a link to the shop or to the next payment, or the note that the page can be closed. */
function next(link: PaymentLink, transactionId: string): Markup {
  const { receipt: texts } = textsFor(link.locale)
  const { redirect, isPointOfSale } = link
  if (redirect !== null) {
    return html`<div data-continue="${continueDelayMs}">
<a class="primary" rel="noreferrer"
  href="${shopReturnUrl(redirect, transactionId)}">${texts.continueTo(redirect.host)}</a>
<p class="note" data-notice hidden role="status">${texts.continuesSoon}
<button type="button" class="link">${texts.stay}</button></p>
</div>`
  }
  if (!isPointOfSale) return html`<p class="note">${texts.close}</p>`
  const again = toQuery(link, { amount: null, isPointOfSale: false })
  return html`<a class="secondary" href="./${again}">${texts.newPayment}</a>`
}

/** English dates are British, with the name of the month, because no reader mistakes them. */
const dateLocales: Readonly<Record<Locale, string>> = { en: 'en-GB', da: 'da' }

function dateText(atMs: number, locale: Locale): Markup {
  const format = new Intl.DateTimeFormat(dateLocales[locale], {
    dateStyle: 'medium',
    timeStyle: 'short',
    timeZone: 'UTC',
  })
  const iso = new Date(atMs).toISOString()
  return html`<time datetime="${iso}" data-locale="${dateLocales[locale]}">${format.format(atMs)} UTC</time>`
}

function declined(link: PaymentLink, error: ProcessingErrorCode): Markup {
  const texts = textsFor(link.locale)
  return html`<div class="sheet with-summary">
${linkSummary(link)}
<section class="details outcome declined">
${cross}
<h1>${texts.declined.heading}</h1>
<p class="explanation">${texts.declines[error]}</p>
<p class="note">${texts.declined.notCharged}</p>
<a class="primary" href="./${toQuery(link)}">${texts.declined.tryAgain}</a>
</section>
</div>`
}

const tick = html`<svg class="sign good" viewBox="0 0 48 48" aria-hidden="true">
<circle cx="24" cy="24" r="24"/><path d="m14 25 7 7 13-15"/></svg>`
const cross = html`<svg class="sign bad" viewBox="0 0 48 48" aria-hidden="true">
<circle cx="24" cy="24" r="24"/><path d="M24 13v14m0 7v1"/></svg>`
