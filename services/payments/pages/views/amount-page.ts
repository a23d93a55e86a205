import type { Locale } from '../../domain/input/request-bodies.ts'
import { findExponent } from '../../domain/money/money.ts'
import { type Link, linkSummary, merchantName, toQuery } from '../link.ts'
import { hasTooManyDecimals } from '../texts/money-text.ts'
import { textsFor } from '../texts/texts.ts'
import { html, type Markup } from './html.ts'
import { layOut } from './layout.ts'

interface AmountPage {
  /** The currencies that the payer can choose if the link has none. */
  readonly currencies: readonly string[]
  /** The payer's previous input, if it was rejected. The currency is null if it was invalid. */
  readonly rejected?: { readonly amount: string; readonly currency: string | null }
}

/** Asks for the amount, and for the currency if the link has none. */
export function amountPage(link: Link, { currencies, rejected }: AmountPage): string {
  const { amount: texts } = textsFor(link.locale)
  const { merchant, locale } = link
  const chosen = link.currency ?? rejected?.currency ?? merchant.currency
  const isKnown = rejected === undefined || rejected.currency !== null
  const example = formatExample(currencies.includes(chosen) ? chosen : merchant.currency, locale)
  const amountError =
    rejected !== undefined && isKnown && describeAmountError(rejected.amount, chosen, locale)
  const main = html`<div class="sheet">
${linkSummary(link)}
<section class="details">
<h1>${texts.heading}</h1>
<form method="post" action="./amount${toQuery(link)}" novalidate>
${currencyField(link, currencies, chosen, isKnown ? null : texts.currencyError)}
<div class="field">
<label for="amount">${texts.label}</label>
<div class="with-currency"><input id="amount" name="amount" type="text" inputmode="decimal" autocomplete="off"
  maxlength="20" required autofocus value="${rejected !== undefined && withoutLongNumber(rejected.amount)}"
  aria-describedby="amount-hint amount-error"${amountError !== false && html` aria-invalid="true"`}>
${link.currency !== null && html`<span>${link.currency}</span>`}</div>
<p class="hint" id="amount-hint">${texts.hint(example)}</p>
<p class="error" id="amount-error" role="alert">${amountError}</p>
</div>
<button type="submit" class="primary">${texts.next}</button>
</form>
</section>
</div>`
  const languageLink = (other: Locale) => `./${toQuery(link, { locale: other })}`
  return layOut({
    locale,
    title: texts.title,
    shop: merchantName(merchant),
    isTest: merchant.test,
    languageLink,
    main,
  })
}

function describeAmountError(typed: string, currency: string, locale: Locale): string {
  const { amount: texts } = textsFor(locale)
  const example = formatExample(currency, locale)
  if (!hasTooManyDecimals(typed, currency, locale)) return texts.error(example)
  return findExponent(currency) === 0 ? texts.noDecimals(example) : texts.tooManyDecimals(example)
}

function currencyField(
  link: Link,
  currencies: readonly string[],
  chosen: string,
  error: string | null,
): Markup | null {
  const { amount: texts } = textsFor(link.locale)
  if (link.currency !== null) return null
  const names = new Intl.DisplayNames([link.locale], { type: 'currency' })
  const options = currencies.map(
    code =>
      html`<option value="${code}"${code === chosen && html` selected`}>${code} – ${names.of(code)}</option>`,
  )
  return html`<div class="field">
<label for="currency">${texts.currency}</label>
<select id="currency" name="currency"${error !== null && html` aria-invalid="true"`}
  aria-describedby="currency-error">${options}</select>
<p class="error" id="currency-error" role="alert">${error}</p>
</div>`
}

/** Returns an example of an amount in the notation of the locale, without groups of digits. */
function formatExample(currency: string, locale: Locale): string {
  const exponent = findExponent(currency)
  const format = { minimumFractionDigits: exponent, maximumFractionDigits: exponent, useGrouping: false }
  return new Intl.NumberFormat(locale, format).format(exponent === 0 ? 1250 : 12.5)
}

/** Returns no text if it has 12 digits or more: the payer may have entered a card number in this field. */
function withoutLongNumber(typed: string): string {
  return typed.replace(/\D/g, '').length < 12 ? typed : ''
}
