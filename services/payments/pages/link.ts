import { parseForm } from '../domain/input/form.ts'
import { type LinkInput, type Locale, parseLink, parseLocale } from '../domain/input/request-bodies.ts'
import type { Merchant } from '../domain/merchant.ts'
import type { Money } from '../domain/money/money.ts'
import type { FieldError } from '../domain/rejections.ts'
import type { Checkout } from './checkout.ts'
import { formatPayment } from './texts/money-text.ts'
import { textsFor } from './texts/texts.ts'
import { html, type Markup } from './views/html.ts'

/** A valid link: the merchant exists and is open, and the currency is accepted. */
export interface Link {
  readonly merchant: Merchant
  readonly locale: Locale
  /** Null if the payer chooses the currency, as with a point-of-sale link without a currency. */
  readonly currency: string | null
  /** The amount in minor units. Null if the payer enters it. */
  readonly amount: bigint | null
  readonly reference: string | null
  readonly text: string | null
  /** The http or https URL of the shop, to which the payer returns after the payment; null without one. */
  readonly redirect: URL | null
  /** Whether the payer has chosen the amount on the page, and can change it. */
  readonly isPointOfSale: boolean
}

/** A link with an amount. If the link names no currency, it is the merchant's. */
export interface PaymentLink extends Link, Money {
  readonly currency: string
  readonly amount: bigint
}

export type LinkFault =
  | 'incomplete'
  | 'unknown-merchant'
  | 'closed'
  | 'no-processor'
  | 'unknown-currency'
  | 'currency-not-accepted'
  | 'wrong-amount'
  | 'wrong-redirect'
  | 'malformed'

export interface FaultyLink {
  readonly fault: LinkFault
  /** 404 if the merchant does not exist, is closed or has no processor; 400 for other faults. */
  readonly status: 400 | 404
  readonly locale: Locale
  /** The invalid fields of the link, for its author. */
  readonly details: readonly FieldError[]
}

/** Added to a link after the payer has chosen the amount. The public API does not define it. */
const pointOfSaleParameter = 'pos'

/** @param query without the question mark */
export async function readLink(query: string, checkout: Checkout): Promise<Link | FaultyLink> {
  const fields = parseForm(query)
  if (!fields.ok) return faulty('malformed', 'en')
  const locale = parseLocale(typeof fields.value['locale'] === 'string' ? fields.value['locale'] : null)
  const input = parseLink(fields.value)
  if (!input.ok) return faulty(chooseFault(input.rejection.fields), locale, input.rejection.fields)
  const merchant = await checkout.findMerchant(input.value.key)
  if (merchant === undefined) return faulty('unknown-merchant', locale)
  if (merchant.closedMs !== null) return faulty('closed', locale)
  if (!checkout.takesPayments(merchant)) return faulty('no-processor', locale)
  const link = { ...toLink(input.value, merchant), isPointOfSale: pointOfSaleParameter in fields.value }
  if (link.currency !== null && !checkout.acceptsCurrency(merchant, link.currency)) {
    return faulty('currency-not-accepted', locale)
  }
  return link
}

function toLink(input: LinkInput, merchant: Merchant): Omit<Link, 'isPointOfSale'> {
  const { amount, reference, text, locale } = input
  const currency = amount === null ? input.currency : (input.currency ?? merchant.currency)
  const redirect = input.redirect === null ? null : new URL(input.redirect)
  return { merchant, locale, currency, amount, reference, text, redirect }
}

export function hasAmount(link: Link): link is PaymentLink {
  return link.amount !== null && link.currency !== null
}

function faulty(fault: LinkFault, locale: Locale, details: readonly FieldError[] = []): FaultyLink {
  const isMissing = ['unknown-merchant', 'closed', 'no-processor'].includes(fault)
  return { fault, status: isMissing ? 404 : 400, locale, details }
}

const faultsByField: Readonly<Record<string, LinkFault>> = {
  key: 'incomplete',
  currency: 'unknown-currency',
  amount: 'wrong-amount',
  redirect: 'wrong-redirect',
}

/** Returns the fault of the first invalid field, which the page explains to the payer. */
function chooseFault([first]: readonly FieldError[]): LinkFault {
  return faultsByField[first?.field ?? ''] ?? 'malformed'
}

interface LinkChange {
  readonly locale?: Locale
  readonly currency?: string | null
  readonly amount?: bigint | null
  readonly isPointOfSale?: boolean
  /** The token that contains the outcome of the payment. */
  readonly outcome?: string
}

/** Returns the query after `change`, with the question mark. Omits unknown parameters. */
export function toQuery(link: Link, change: LinkChange = {}): string {
  const { merchant, currency, amount, reference, text, redirect, locale, isPointOfSale } = {
    ...link,
    ...change,
  }
  const parameters = {
    key: merchant.key,
    currency,
    amount: amount === null ? null : String(amount),
    reference,
    text,
    redirect: redirect?.href ?? null,
    locale: locale === 'en' ? null : locale,
    [pointOfSaleParameter]: isPointOfSale ? 'yes' : null,
    outcome: change.outcome ?? null,
  }
  const given = Object.entries(parameters).filter((entry): entry is [string, string] => entry[1] !== null)
  return `?${new URLSearchParams(given)}`
}

/**
 * Returns text that identifies the payment of a link. A token with this binding is valid only for this
 * payment. The language is not a part of it, because the payer may change the language.
 */
export function bindToPayment({ merchant, currency, amount, reference, text, redirect }: Link): string {
  return JSON.stringify([merchant.id, currency, String(amount), reference, text, redirect?.href ?? null])
}

export function shopReturnUrl(redirect: URL, transactionId: string): string {
  const address = new URL(redirect)
  address.searchParams.set('transactionId', transactionId)
  return address.href
}

export function merchantName(merchant: Merchant): string {
  return merchant.name ?? websiteHost(merchant)
}

function websiteHost({ website }: Merchant): string {
  return URL.parse(website)?.host ?? website
}

/** A longer amount is shown in a smaller font, so that it fits in one line on a phone with 320 pixels. */
const maxLargeCharacters = 13

function renderAmount(text: string): Markup {
  return text.length > maxLargeCharacters
    ? html`<p class="amount long">${text}</p>`
    : html`<p class="amount">${text}</p>`
}

export function linkSummary(link: Link): Markup {
  const texts = textsFor(link.locale)
  const { merchant, text, reference } = link
  const name = merchantName(merchant)
  const host = websiteHost(merchant)
  return html`<section class="summary" aria-labelledby="shop">
<p class="pay-to">${texts.payTo}</p>
<p class="shop" id="shop">${name}</p>
${host !== name && html`<p class="host">${host}</p>`}
${hasAmount(link) && renderAmount(formatPayment(link, link.locale))}
${text !== null && html`<p class="text">${text}</p>`}
${reference !== null && html`<p class="reference"><span>${texts.reference}</span> ${reference}</p>`}
</section>`
}
