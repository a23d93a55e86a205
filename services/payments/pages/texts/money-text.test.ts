import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { locales } from '../../domain/input/request-bodies.ts'
import { currencyCodes, findExponent, maxAmount } from '../../domain/money/money.ts'
import { formatPayment, hasTooManyDecimals, parseAmount } from './money-text.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 300)
const plainSpaces = (text: string) => text.replace(/\s/g, ' ')

const formatted = `
  en 1250 DKK           → DKK 12.50
  da 1250 DKK           → 12,50 kr.
  en 1250 EUR           → €12.50
  da 123456789 EUR      → 1.234.567,89 €
  en 1250 JPY           → ¥1,250
  da 1250 JPY           → 1.250 JP¥
  en 1250 KWD           → KWD 1.250
  en 5 USD              → $0.05
  en 1000000000000 USD  → $10,000,000,000.00
  en 1234 ISK           → ISK 1,234
`
test('amounts have the digits of their currency and the signs of the language', () => {
  for (const [locale, amount, currency, expected] of rowsOf(formatted)) {
    const shown = formatPayment({ amount: BigInt(amount), currency }, locale)
    assert.equal(plainSpaces(shown), expected)
  }
})

const parsed = `
  en DKK 12.50      → 1250
  en DKK 12,50      → 1250
  en DKK 12.5       → 1250
  en DKK 12         → 1200
  en DKK 1,250.00   → 125000
  en DKK 1,250      → 125000
  en DKK 1_250.5    → 125050
  en DKK 1.250      → none
  en DKK 1,25,000   → none
  da DKK 1.250      → 125000
  da DKK 1.250,75   → 125075
  da DKK 1,250      → none
  da DKK 1.250.75   → none
  en JPY 1250       → 1250
  en JPY 1,250      → 1250
  en JPY 12.5       → none
  en KWD 1.250      → 1250
  en KWD 1.2505     → none
  en DKK 0          → none
  en DKK 0.00       → none
  en DKK -5         → none
  en DKK 1e3        → none
  en DKK .5         → none
  en DKK 12.        → none
  en DKK abc        → none
  en DKK 10000000000.00 → 1000000000000
  en DKK 10000000000.01 → none
  en DKK 4100000000000001 → none
`
test('amounts are parsed in the notation of the language', () => {
  for (const [locale, currency, typed, expected] of rowsOf(parsed)) {
    // An underscore in a row stands for a no-break space.
    const amount = parseAmount(typed.replace('_', '\u00a0'), currency, locale)
    assert.equal(String(amount ?? 'none'), expected, `${locale} ${currency} ${typed}`)
  }
  assert.equal(parseAmount('', 'DKK', 'en'), undefined)
})

test('too many decimals of an amount are reported as such', () => {
  const table = [
    ['12.5', 'JPY', 'en', true],
    ['12,5', 'JPY', 'da', true],
    ['1,250.5', 'JPY', 'en', true],
    ['12.505', 'DKK', 'en', true],
    ['1250', 'JPY', 'en', false],
    ['x', 'JPY', 'en', false],
    ['0', 'JPY', 'en', false],
    ['12.x', 'JPY', 'en', false],
  ] as const
  for (const [typed, currency, locale, expected] of table) {
    assert.equal(hasTooManyDecimals(typed, currency, locale), expected, `${typed} ${currency}`)
  }
})

test('a formatted amount is parsed as the same amount', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: 1n, max: maxAmount }),
      fc.constantFrom(...currencyCodes),
      fc.constantFrom(...locales),
      (amount, currency, locale) => {
        const digits = formatPayment({ amount, currency }, locale).match(/\d(?:.*\d)?/)?.[0] ?? ''
        // Skips small amounts with three decimals, because three decimals look like a group of three digits:
        // `1.250`.
        fc.pre(findExponent(currency) < 3 || amount >= 1_000_000n)
        assert.equal(parseAmount(digits, currency, locale), amount, digits)
      },
    ),
    { numRuns },
  )
})

function rowsOf(table: string) {
  return table
    .trim()
    .split('\n')
    .map(line => {
      const [left = '', right = ''] = line.split('→')
      const [locale = '', second = '', third = ''] = left.trim().split(/ +/)
      return [locale === 'da' ? 'da' : 'en', second, third, right.trim()] as const
    })
}
