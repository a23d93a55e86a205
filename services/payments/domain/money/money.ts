import { quote } from '@tollway/chassis/text.ts'

/** The currencies of ISO 4217 that people pay with, by the number of decimal places of the minor unit. */
const byExponent: readonly (readonly [exponent: number, codes: string])[] = [
  [0, 'BIF CLP DJF GNF ISK JPY KMF KRW PYG RWF UGX VND VUV XAF XOF XPF'],
  [
    2,
    `AED AFN ALL AMD AOA ARS AUD AWG AZN BAM BBD BDT BMD BND BOB BRL BSD BTN BWP BYN BZD CAD CDF CHF CNY
     COP CRC CUP CVE CZK DKK DOP DZD EGP ERN ETB EUR FJD FKP GBP GEL GHS GIP GMD GTQ GYD HKD HNL HTG HUF
     IDR ILS INR IRR JMD KES KGS KHR KPW KYD KZT LAK LBP LKR LRD LSL MAD MDL MGA MKD MMK MNT MOP MRU MUR
     MVR MWK MXN MYR MZN NAD NGN NIO NOK NPR NZD PAB PEN PGK PHP PKR PLN QAR RON RSD RUB SAR SBD SCR SDG
     SEK SGD SHP SLE SOS SRD SSP STN SVC SYP SZL THB TJS TMT TOP TRY TTD TWD TZS UAH USD UYU UZS VED VES
     WST XCD XCG YER ZAR ZMW ZWG`,
  ],
  [3, 'BHD IQD JOD KWD LYD OMR TND'],
]

const exponents: ReadonlyMap<string, number> = new Map(
  byExponent.flatMap(([exponent, codes]) => codes.split(/\s+/).map(code => [code, exponent] as const)),
)

export const currencyCodes: readonly string[] = [...exponents.keys()].sort()

export function isCurrency(code: string): boolean {
  return exponents.has(code)
}

/** Returns the number of decimal places: 2 for DKK, 0 for JPY, 3 for KWD. Throws for an unknown currency. */
export function findExponent(currency: string): number {
  const exponent = exponents.get(currency)
  if (exponent === undefined) throw new RangeError(`${quote(currency)} is not a currency of ISO 4217`)
  return exponent
}

/** An exact fraction, so that a calculation rounds only once, at the end. Never negative. */
export interface Ratio {
  readonly numerator: bigint
  readonly denominator: bigint
}

const decimalPattern = /^(\d{1,12})(?:\.(\d{1,12}))?$/

/** Parses a decimal number exactly. Returns undefined for more than 12 digits before or after the point. */
export function parseDecimal(text: string): Ratio | undefined {
  const [, whole, fraction = ''] = decimalPattern.exec(text) ?? []
  if (whole === undefined) return undefined
  return { numerator: BigInt(whole + fraction), denominator: 10n ** BigInt(fraction.length) }
}

/**
 * Returns amount × numerator ÷ denominator, rounded half to even. All money is rounded in this way, because
 * many roundings then favour neither side. The amount must not be negative.
 */
export function scale(amount: bigint, { numerator, denominator }: Ratio): bigint {
  const product = amount * numerator
  const quotient = product / denominator
  const twiceRest = (product % denominator) * 2n
  const up = twiceRest > denominator || (twiceRest === denominator && quotient % 2n === 1n)
  return up ? quotient + 1n : quotient
}

/** An amount in minor units of `currency`: 100 of DKK is one krone, 100 of JPY is a hundred yen. */
export interface Money {
  readonly currency: string
  readonly amount: bigint
}

/** The largest amount of one operation. In another currency its value can be larger; see `fitsJson`. */
export const maxAmount = 1_000_000_000_000n

/** The largest amount that every JSON parser reads exactly. */
export const maxJsonAmount = BigInt(Number.MAX_SAFE_INTEGER)

export function fitsJson(amount: bigint): boolean {
  return amount <= maxJsonAmount && amount >= -maxJsonAmount
}

/** Converts an amount to a JSON number. Throws if JSON parsers may not read it exactly. */
export function toJsonNumber(amount: bigint): number {
  if (!fitsJson(amount)) throw new RangeError(`${amount} is too large for a JSON number`)
  return Number(amount)
}

export function total(amounts: readonly bigint[]): bigint {
  return amounts.reduce((sum, amount) => sum + amount, 0n)
}
