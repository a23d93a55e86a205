import { type CardExpiry, expiryMs, hasValidCheckDigit } from '../domain/card.ts'
import { detectScheme, normaliseNumber, publicTestCard, testPrefixes } from '../processor/card-number.ts'
import type { CardInput } from '../processor/processor.ts'

/**
 * The errors that are found without an answer of the processor. The checks run in the browser too; see
 * `assets.ts`.
 */
export type CardFieldError =
  | 'number-missing'
  | 'number-incomplete'
  | 'number-scheme'
  | 'number-wrong'
  | 'number-real'
  | 'expiry-missing'
  | 'expiry-wrong'
  | 'expiry-past'
  | 'code-missing'
  | 'code-wrong'

export const cardFields = ['number', 'expiry', 'code'] as const
export type CardField = (typeof cardFields)[number]

export type CardErrors = Readonly<Partial<Record<CardField, CardFieldError>>>

/** @param isTest whether only test cards are valid, so that nobody enters a real one where no money moves */
export function checkNumber(text: string, isTest: boolean): CardFieldError | undefined {
  const number = normaliseNumber(text.trim())
  if (number === '') return 'number-missing'
  if (!/^\d+$/.test(number)) return 'number-wrong'
  if (number === publicTestCard && isTest) return undefined
  const scheme = detectScheme(number)
  if (scheme === undefined || number === publicTestCard) {
    return number.length < 4 ? 'number-incomplete' : 'number-scheme'
  }
  if (number.length < (scheme === 'visa' ? 13 : 16)) return 'number-incomplete'
  if (number.length > (scheme === 'visa' ? 19 : 16)) return 'number-wrong'
  if (!hasValidCheckDigit(number)) return 'number-wrong'
  return isTest && !testPrefixes.includes(number.slice(0, 8)) ? 'number-real' : undefined
}

/** Parses `12 / 30`, `12/2030`, `1-30`, `1230` and the like. */
export function readExpiry(text: string): CardExpiry | undefined {
  const parts = /^(\d{1,2})\s*[/.-]?\s*(20\d\d|\d\d)$/.exec(text.trim())
  if (parts === null) return undefined
  const month = Number(parts[1])
  return month >= 1 && month <= 12 ? { month, year: 2000 + (Number(parts[2]) % 100) } : undefined
}

export function checkExpiry(text: string, nowMs: number): CardFieldError | undefined {
  if (text.trim() === '') return 'expiry-missing'
  const expiry = readExpiry(text)
  if (expiry === undefined) return 'expiry-wrong'
  return nowMs > expiryMs(expiry) ? 'expiry-past' : undefined
}

export function checkCode(text: string): CardFieldError | undefined {
  if (text.trim() === '') return 'code-missing'
  return /^\d{3}$/.test(text.trim()) ? undefined : 'code-wrong'
}

/** The formatted text of a field, and the new position of the caret in it. */
export interface Typed {
  readonly text: string
  readonly caret: number
}

/**
 * Formats a card number in groups of four digits. The caret stays behind the same digit. If a space follows
 * this digit, the caret moves behind the space after typing, and stays before it after a deletion, so that
 * the next deletion removes a digit.
 */
export function groupNumber(text: string, caret: number, isDeletion: boolean): Typed {
  const limit = detectScheme(text.replace(/\D/g, '')) === 'mastercard' ? 16 : 19
  const digits = text.replace(/\D/g, '').slice(0, limit)
  const before = Math.min(text.slice(0, caret).replace(/\D/g, '').length, digits.length)
  const grouped = digits.replace(/(\d{4})(?=\d)/g, '$1 ')
  const spaces = before === 0 ? 0 : Math.floor((before - 1) / 4)
  const past = !isDeletion && before % 4 === 0 && before > 0 && before < digits.length ? 1 : 0
  return { text: grouped, caret: before + spaces + past }
}

/**
 * Formats an expiry date as `MM / YY`. A first digit from 2 to 9 is completed to a month, such as `02`, and
 * the caret moves to the year. A year of four digits, as browsers fill it in, is cut to two.
 */
export function groupExpiry(text: string, caret: number, isDeletion: boolean): Typed {
  const before = text.slice(0, caret).replace(/\D/g, '').length
  const cleaned = text.replace(/[^\d/]/g, '').replace(/^\/+/, '')
  const typed = /^\d{1,2}\/?20\d\d$/.test(cleaned) ? cleaned.replace(/20(?=\d\d$)/, '') : cleaned
  const lead = /^(?:[2-9]|\d\/)/.test(typed) && !isDeletion ? '0' : ''
  const digits = (lead + typed.replace(/\D/g, '')).slice(0, 4)
  const position = Math.min(before + lead.length, digits.length)
  const month = digits.slice(0, 2)
  if (digits.length < 2 || (digits.length === 2 && isDeletion)) return { text: digits, caret: position }
  const isPast = position > 2 || (position === 2 && !isDeletion)
  return { text: `${month} / ${digits.slice(2)}`, caret: isPast ? position + 3 : position }
}

export function readCardFields(
  body: Readonly<Record<string, unknown>>,
  options: { readonly isTest: boolean; readonly nowMs: number },
): { readonly card: CardInput } | { readonly errors: CardErrors } {
  const [number = '', expiry = '', code = ''] = cardFields.map(name => textIn(body, name))
  const wrong = [
    ['number', checkNumber(number, options.isTest)],
    ['expiry', checkExpiry(expiry, options.nowMs)],
    ['code', checkCode(code)],
  ] as const
  const errors = Object.fromEntries(wrong.filter(([, error]) => error !== undefined)) as CardErrors
  if (Object.keys(errors).length > 0) return { errors }
  const { month = null, year = null } = readExpiry(expiry) ?? {}
  const card = {
    number: normaliseNumber(number.trim()),
    expiryMonth: month,
    expiryYear: year,
    code: code.trim(),
  }
  return { card }
}

export function textIn(body: Readonly<Record<string, unknown>>, name: string): string {
  const value = Object.hasOwn(body, name) ? body[name] : ''
  return typeof value === 'string' ? value : ''
}
