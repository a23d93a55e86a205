import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { canExchange, exchange, parseRateTable, type RateTable } from './exchange.ts'
import { calculateFee, parseFeeTable } from './fees.ts'
import { currencyCodes, findExponent, parseDecimal, scale } from './money.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 500)

function tableOf(rates: Readonly<Record<string, string>>): RateTable {
  const parsed = parseRateTable('EUR', rates)
  assert.ok('table' in parsed)
  return parsed.table
}

const rates = tableOf({ DKK: '7.4604', JPY: '163.27', KWD: '0.3349', USD: '1.0875' })

/** Each row has an amount and the expected amount in the other currency, in minor units. */
const conversions = `
  100 EUR = 746 DKK
  746 DKK = 100 EUR
  1 EUR = 7 DKK
  1 DKK = 0 EUR
  100 EUR = 163 JPY
  1 JPY = 1 EUR
  1000 KWD = 299 EUR
  1000000000000 EUR = 7460400000000 DKK
  5 DKK = 5 DKK
  5 SEK = 5 SEK
  5 SEK = - DKK
`

test('amounts are exchanged between currencies with different minor units', () => {
  for (const row of conversions.trim().split('\n')) {
    const [amount = '', currency = '', , expected, to = ''] = row.trim().split(' ')
    const found = exchange(rates, { amount: BigInt(amount), currency }, to)
    assert.equal(found === undefined ? '-' : String(found), expected, row)
    assert.equal(canExchange(rates, currency, to), found !== undefined)
  }
})

test('a half is rounded to the even number', () => {
  const half = { numerator: 1n, denominator: 2n }
  assert.deepEqual(
    [1n, 3n, 5n, 7n, 4n].map(amount => scale(amount, half)),
    [0n, 2n, 2n, 4n, 2n],
  )
})

test('an exchange differs from the exact value by less than one minor unit', () => {
  const codes = fc.constantFrom('EUR', 'DKK', 'JPY', 'KWD', 'USD')
  const rate = (code: string) => rates.rates.get(code) ?? { numerator: 0n, denominator: 1n }
  fc.assert(
    fc.property(fc.bigInt(1n, 10n ** 12n), codes, codes, (amount, from, to) => {
      const found = exchange(rates, { amount, currency: from }, to)
      assert.ok(found !== undefined)
      const numerator = rate(to).numerator * rate(from).denominator * 10n ** BigInt(findExponent(to))
      const denominator = rate(to).denominator * rate(from).numerator * 10n ** BigInt(findExponent(from))
      const twiceError = 2n * (found * denominator - amount * numerator)
      assert.ok(twiceError <= denominator && twiceError >= -denominator)
    }),
    { numRuns },
  )
})

test('all problems of a rate table are reported', () => {
  assert.deepEqual(parseRateTable('EURO', { DKK: '0', QQQ: '1', JPY: '1,5', EUR: '2' }), {
    problems: [
      'base: "EURO" is not a currency of ISO 4217',
      'rates.DKK: "0" is not a decimal number above 0, such as "7.4604"',
      'rates.QQQ: is not a currency of ISO 4217',
      'rates.JPY: "1,5" is not a decimal number above 0, such as "7.4604"',
    ],
  })
  assert.deepEqual(parseRateTable('EUR', { EUR: '2' }), {
    problems: ['rates.EUR: the base’s own rate is 1, not 2'],
  })
})

test('a fee has a fixed part and a proportional one', () => {
  const parsed = parseFeeTable({ DKK: { capture: { flat: '25', rate: '0.0135' } } })
  assert.ok('table' in parsed)
  assert.deepEqual(calculateFee(parsed.table, 'capture', 'DKK', 10_000n), {
    flat: 25n,
    rate: 135n,
    total: 160n,
  })
  assert.deepEqual(calculateFee(parsed.table, 'refund', 'DKK', 10_000n), { flat: 0n, rate: 0n, total: 0n })
  assert.deepEqual(calculateFee(parsed.table, 'capture', 'EUR', 10_000n), { flat: 0n, rate: 0n, total: 0n })
})

test('all problems of a fee table are reported', () => {
  assert.deepEqual(parseFeeTable({ QQQ: {}, DKK: { capture: { flat: '1.5', rate: '2' }, gift: {} } }), {
    problems: [
      'QQQ: is not a currency of ISO 4217',
      'DKK.capture.flat: "1.5" is not a whole number of minor units',
      'DKK.capture.rate: "2" is not a decimal number from 0 to 1, such as "0.0135"',
      'DKK.gift: is not one of capture, refund, dispute',
    ],
  })
})

test('decimal numbers are parsed exactly', () => {
  assert.deepEqual(parseDecimal('0.10'), { numerator: 10n, denominator: 100n })
  for (const text of ['', '.5', '5.', '-1', '1e3', '1'.repeat(13), ' 1'])
    assert.equal(parseDecimal(text), undefined)
})

test('each currency has the exponent of its minor unit', () => {
  for (const [code, exponent] of Object.entries({ DKK: 2, JPY: 0, KWD: 3, ISK: 0, TND: 3, HUF: 2 })) {
    assert.equal(findExponent(code), exponent)
  }
  assert.ok(currencyCodes.every(code => /^[A-Z]{3}$/.test(code)))
  assert.equal(new Set(currencyCodes).size, currencyCodes.length)
  assert.throws(() => findExponent('QQQ'), RangeError)
})
