import { quote } from '@tollway/chassis/text.ts'
import { findExponent, isCurrency, type Money, parseDecimal, type Ratio, scale } from './money.ts'

/** `rates` states how many major units of each currency one major unit of `base` is worth; 1 for `base`. */
export interface RateTable {
  readonly base: string
  readonly rates: ReadonlyMap<string, Ratio>
}

/** Reports whether `exchange` can convert between the currencies: they are equal, or both have a rate. */
export function canExchange({ rates }: RateTable, from: string, to: string): boolean {
  return from === to || (rates.has(from) && rates.has(to))
}

/**
 * Returns the value of an amount in another currency, in minor units of that currency; undefined if one of
 * two different currencies has no rate. Rounds once, at the end, half to even.
 */
export function exchange(table: RateTable, money: Money, to: string): bigint | undefined {
  if (money.currency === to) return money.amount
  const from = table.rates.get(money.currency)
  const into = table.rates.get(to)
  if (from === undefined || into === undefined) return undefined
  return scale(money.amount, {
    numerator: into.numerator * from.denominator * minorUnits(to),
    denominator: into.denominator * from.numerator * minorUnits(money.currency),
  })
}

function minorUnits(currency: string): bigint {
  return 10n ** BigInt(findExponent(currency))
}

/** Parses `{"base": "EUR", "rates": {"DKK": "7.4604"}}`. Text, unlike a JSON number, is exact. */
export function parseRateTable(
  base: string,
  rates: Readonly<Record<string, string>>,
): { readonly table: RateTable } | { readonly problems: readonly string[] } {
  const problems: string[] = []
  if (!isCurrency(base)) problems.push(`base: ${quote(base)} is not a currency of ISO 4217`)
  const parsed = new Map<string, Ratio>([[base, { numerator: 1n, denominator: 1n }]])
  for (const [currency, text] of Object.entries(rates)) {
    const rate = parseDecimal(text)
    if (!isCurrency(currency)) problems.push(`rates.${currency}: is not a currency of ISO 4217`)
    else if (rate === undefined || rate.numerator === 0n) {
      problems.push(`rates.${currency}: ${quote(text)} is not a decimal number above 0, such as "7.4604"`)
    } else if (currency === base && rate.numerator !== rate.denominator) {
      problems.push(`rates.${currency}: the base’s own rate is 1, not ${text}`)
    } else parsed.set(currency, rate)
  }
  return problems.length > 0 ? { problems } : { table: { base, rates: parsed } }
}
