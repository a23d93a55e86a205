import { parseForm } from '../domain/input/form.ts'
import { type LinkInput, type Locale, parseLink, parseLocale } from '../domain/input/request-bodies.ts'
import type { Merchant } from '../domain/merchant/merchant.ts'
import type { Money } from '../domain/money/money.ts'
import type { FieldError } from '../domain/rejections.ts'
import type { Checkout } from './checkout.ts'
import { formatPayment } from './texts/money-text.ts'
import { textsFor } from './texts/texts.ts'
import { html, type Markup } from './views/html.ts'

/** A payment link or point-of-sale link with an existing merchant and an accepted currency. */
export interface Link {
  readonly merchant: Merchant
  readonly locale: Locale
  /** Null if the payer chooses it: a point-of-sale link without a currency. */
  readonly currency: string | null
  /** The amount in minor units. Null if the payer enters it. */
  readonly amount: bigint | null
  readonly reference: string | null
  readonly text: string | null
  /** An http or https URL. */
  readonly redirect: URL | null
  /** The payer chose the amount, and can choose it again. */
  readonly isPointOfSale: boolean
}

/** A link with an amount. Its currency defaults to the merchant's. */
export interface PaymentLink extends Link, Money {
  readonly currency: string
  readonly amount: bigint
}

/** The faults of a link that the payer sees. */
const linkFaults = [
  'incomplete',
  'unknown-merchant',
  'closed',
  'no-processor',
  'unknown-currency',
  'currency-not-accepted',
  'wrong-amount',
  'wrong-redirect',
  'malformed',
] as const
export type LinkFault = (typeof linkFaults)[number]

export interface FaultyLink {
  readonly fault: LinkFault
  /** 404 if the merchant cannot be paid, 400 if the link is invalid. */
  readonly status: 400 | 404
  readonly locale: Locale
  /** Details for the author of the link. */
  readonly details: readonly FieldError[]
}

/** Tollway's own parameter: the payer chooses the amount. */
const pointOfSaleParameter = 'pos'

/** @param query of the address, without its question mark */
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

/** Returns the fault of the first wrong field, for the payer. */
function chooseFault([first]: readonly FieldError[]): LinkFault {
  return faultsByField[first?.field ?? ''] ?? 'malformed'
}

/** The parts of an address that may differ between two pages of one link. */
interface LinkChange {
  readonly locale?: Locale
  readonly currency?: string | null
  readonly amount?: bigint | null
  readonly isPointOfSale?: boolean
  /** The token of an outcome. */
  readonly outcome?: string
}

/** Returns the query of a link, with its question mark. It drops unknown parameters. */
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

/** Returns the binding of tokens to a payment. It ignores the language, which may change. */
export function bindToPayment({ merchant, currency, amount, reference, text, redirect }: Link): string {
  return JSON.stringify([merchant.id, currency, String(amount), reference, text, redirect?.href ?? null])
}

/** Returns the address for the payer's return to the shop: the link's, with the id of the transaction. */
export function shopReturnUrl(redirect: URL, transactionId: string): string {
  const address = new URL(redirect)
  address.searchParams.set('transactionId', transactionId)
  return address.href
}

/** How the merchant is called on the pages. */
export function merchantName(merchant: Merchant): string {
  return merchant.name ?? websiteHost(merchant)
}

function websiteHost({ website }: Merchant): string {
  return URL.parse(website)?.host ?? website
}

/** Longer ones are smaller, so that they fit a phone of 320 pixels in one line. */
const maxLargeCharacters = 13

function renderAmount(text: string): Markup {
  return text.length > maxLargeCharacters
    ? html`<p class="amount long">${text}</p>`
    : html`<p class="amount">${text}</p>`
}

/** Returns the payee, the amount and the purpose of a link. */
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
