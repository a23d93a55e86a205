import type { Locale } from '../../domain/input/request-bodies.ts'
import { findExponent, type Money, maxAmount } from '../../domain/money/money.ts'

/** Formats an amount with the currency for a locale: `€12.50`, `12,50 kr.`, `¥1,250`. */
export function formatPayment({ amount, currency }: Money, locale: Locale): string {
  const exponent = findExponent(currency)
  const digits = { minimumFractionDigits: exponent, maximumFractionDigits: exponent }
  const format = new Intl.NumberFormat(locale, { style: 'currency', currency, ...digits })
  return format.format(toDecimal(amount, exponent))
}

/** Returns text, because a number of JavaScript would round large amounts. */
function toDecimal(amount: bigint, exponent: number): Intl.StringNumericLiteral {
  const digits = String(amount).padStart(exponent + 1, '0')
  const fraction = exponent === 0 ? '' : `.${digits.slice(-exponent)}`
  return `${digits.slice(0, digits.length - exponent)}${fraction}` as Intl.StringNumericLiteral
}

/** Returns whether the text is invalid only because it has more decimals than the currency. */
export function hasTooManyDecimals(typed: string, currency: string, locale: Locale): boolean {
  const isAmount = (text: string) => parseAmount(text, currency, locale) !== undefined
  return !isAmount(typed) && isAmount(typed.replace(/[.,]\d+\s*$/, '')) && /[.,]\d+\s*$/.test(typed)
}

/** Matches a number with groups of three digits, as it is written in the language. */
const groupedPatterns: Readonly<Record<Locale, RegExp>> = {
  en: /^\d{1,3}(?:,\d{3})+(?:\.\d+)?$/,
  da: /^\d{1,3}(?:\.\d{3})+(?:,\d+)?$/,
}
const groupSeparators: Readonly<Record<Locale, string>> = { en: ',', da: '.' }

/**
 * Parses a typed amount to minor units: `12.50`, `12,50`, `1 250`, and with the locale's groups of three,
 * `1,250.00` or `1.250,00`. Returns undefined for other texts, for more decimals than the currency has, for
 * zero and for amounts above `maxAmount`. `1.250` is 1250 in Danish; in English it has three decimals, which
 * dollars do not allow.
 */
export function parseAmount(typed: string, currency: string, locale: Locale): bigint | undefined {
  const text = typed.replace(/\s/g, '')
  const grouped = groupedPatterns[locale].test(text)
  const plain = grouped ? text.replaceAll(groupSeparators[locale], '') : text
  const [, whole, fraction = ''] = /^(\d{1,15})(?:[.,](\d{1,3}))?$/.exec(plain) ?? []
  const exponent = findExponent(currency)
  if (whole === undefined || fraction.length > exponent) return undefined
  const amount = BigInt(whole + fraction.padEnd(exponent, '0'))
  return amount > 0n && amount <= maxAmount ? amount : undefined
}
