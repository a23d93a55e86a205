/** What the service stores of a card. Only the processor has the whole number and the verification code. */
export interface CardDetails {
  /** The first 6 digits of the number. */
  readonly bin: string
  readonly last4: string
  readonly expiry: CardExpiry
  readonly scheme: CardScheme
}

export const cardSchemes = ['visa', 'mastercard'] as const
export type CardScheme = (typeof cardSchemes)[number]

export interface CardExpiry {
  readonly year: number
  /** The month, from 1 to 12. */
  readonly month: number
}

/** The processor's reference of a card. It authorises further payments and does not contain the number. */
export interface CardReference {
  readonly token: string
  /** A keyed hash of the card number: the same card has the same fingerprint. */
  readonly fingerprint: string
}

/** A card that a merchant saved from one of its transactions. */
export interface SavedCard {
  readonly id: string
  readonly merchantId: string
  readonly createdMs: number
  readonly card: CardDetails
  readonly reference: CardReference
  readonly notes: string | null
}

/** Returns the last millisecond in which a card is valid: the end of the month of expiry, in UTC. */
export function expiryMs({ year, month }: CardExpiry): number {
  return Date.UTC(year, month, 1) - 1
}

/** Reports whether the last digit is the check digit of ISO/IEC 7812-1, annex B. */
export function hasValidCheckDigit(number: string): boolean {
  let sum = 0
  for (let index = 0; index < number.length; index++) {
    const digit = Number(number.at(-1 - index))
    const weighted = index % 2 === 0 ? digit : digit * 2
    sum += weighted > 9 ? weighted - 9 : weighted
  }
  return sum % 10 === 0
}

/** Matches 14 to 19 digits, the lengths of card numbers, also with a space, dash or dot between two. */
const runs = /(?<!\d)\d(?:[ .-]?\d){13,18}(?!\d)/g
/** The prefixes and lengths of card numbers. Most other numbers, such as of articles, do not have them. */
const issued = [
  // Visa
  /^4(?:\d{15}|\d{18})$/,
  // Mastercard and Maestro
  /^(?:5[0-8]\d\d|222[1-9]|22[3-9]\d|2[3-6]\d\d|27[01]\d|2720)\d{12}$/,
  // American Express and Diners
  /^(?:3[47]\d{13}|3[0689]\d{12})$/,
  // JCB, Discover and UnionPay
  /^(?:35\d{14}|6\d{15}|62\d{15,17})$/,
]

/**
 * Texts that are stored and shown must not contain a number that could be a card's (PCI DSS 4.0.1, 3.5.1).
 */
export function hasCardNumber(text: string): boolean {
  return [...text.matchAll(runs)].some(([run]) => {
    const number = run.replace(/\D/g, '')
    return issued.some(pattern => pattern.test(number)) && hasValidCheckDigit(number)
  })
}

/** Matches 12 digits or more, also with spaces or dashes: a card or an account could have this number. */
const longNumber = /\d(?:[ -]?\d){11,}/g

export function withoutLongNumbers(text: string): string {
  return text.replace(longNumber, '(a long number)')
}
