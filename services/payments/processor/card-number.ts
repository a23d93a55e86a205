import {
  type CardDetails,
  type CardExpiry,
  type CardScheme,
  expiryMs,
  hasValidCheckDigit,
} from '../domain/card.ts'
import type { ProcessingErrorCode } from '../domain/transaction/processing-errors.ts'
import type { CardInput } from './processor.ts'

/** The test card of the public service, with the prefix of no scheme and a wrong check digit. */
export const publicTestCard = '1000000000000000'

/** The prefixes of the test cards. A number with another prefix may be a real card. */
export const testPrefixes = ['41000000', '55000000', '22210000']

const numberPattern = /^\d{12,19}$/
const codePattern = /^\d{3}$/

export function normaliseNumber(text: string): string {
  return text.replace(/[ -]/g, '')
}

/** Returns the scheme of a card number by prefix: Visa has 4, Mastercard has 51 to 55 or 2221 to 2720. */
export function detectScheme(number: string): CardScheme | undefined {
  if (number === publicTestCard || number.startsWith('4')) return 'visa'
  const two = Number(number.slice(0, 2))
  const four = Number(number.slice(0, 4))
  const isMastercard = (two >= 51 && two <= 55) || (four >= 2221 && four <= 2720)
  return isMastercard ? 'mastercard' : undefined
}

const lengths: Readonly<Record<CardScheme, readonly number[]>> = { visa: [13, 16, 19], mastercard: [16] }

interface ReadCard {
  readonly number: string
  readonly details: CardDetails
}

/** Reads a card; checks for missing fields first. Returns the processing error of the first problem. */
export function readCard(card: CardInput, nowMs: number): ReadCard | { readonly error: ProcessingErrorCode } {
  const missing = missingIn(card)
  if (missing !== undefined) return { error: missing }
  const number = normaliseNumber(card.number)
  if (!numberPattern.test(number)) return { error: 3 }
  const scheme = detectScheme(number)
  if (scheme === undefined || !lengths[scheme].includes(number.length)) return { error: 29 }
  if (number !== publicTestCard && !hasValidCheckDigit(number)) return { error: 3 }
  const expiry = readExpiry(card)
  if (expiry === undefined) return { error: 5 }
  if (nowMs > expiryMs(expiry)) return { error: 6 }
  if (!codePattern.test(card.code)) return { error: 4 }
  return { number, details: { bin: number.slice(0, 6), last4: number.slice(-4), expiry, scheme } }
}

function missingIn({ number, expiryMonth, expiryYear, code }: CardInput): ProcessingErrorCode | undefined {
  if (number === '') return 17
  if (expiryMonth === null) return 18
  if (expiryYear === null) return 19
  return code === '' ? 20 : undefined
}

/** The first and the last accepted year of expiry. A year of two digits means 2000 to 2099. */
const firstYear = 2000
const lastYear = 2099

function readExpiry({ expiryMonth: month, expiryYear }: CardInput): CardExpiry | undefined {
  if (month === null || expiryYear === null) return undefined
  const year = expiryYear < 100 ? firstYear + expiryYear : expiryYear
  const isMonth = Number.isInteger(month) && month >= 1 && month <= 12
  const isYear = Number.isInteger(year) && year >= firstYear && year <= lastYear
  return isMonth && isYear ? { year, month } : undefined
}
