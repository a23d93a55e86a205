import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { exchange } from './exchange.ts'
import {
  authorise,
  balanceOf,
  createHistory,
  merchantUnderTest,
  operate,
  pricingUnderTest,
} from './history-under-test.ts'
import { scale } from './ratio.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 300)
const currencies = ['DKK', 'EUR', 'USD', 'JPY', 'KWD'] as const
const rate = { numerator: 135n, denominator: 10_000n }
const fees = Object.fromEntries(
  currencies.map(currency => [currency, { capture: { rate: '0.0135' }, refund: { rate: '0.0135' } }]),
)

const parts = fc.array(fc.bigInt(1n, 400n), { minLength: 1, maxLength: 60 })
const sumOf = (amounts: readonly bigint[]) => amounts.reduce((sum, amount) => sum + amount, 0n)

test('captures in parts are worth what one capture is, and cost the same, between all currencies', () => {
  for (const from of currencies) {
    for (const to of currencies) {
      fc.assert(
        fc.property(parts, amounts => {
          const pricing = pricingUnderTest(fees)
          const history = createHistory({ ...merchantUnderTest, currency: to }, pricing)
          const total = sumOf(amounts)
          authorise(history, total, from)
          for (const amount of amounts) operate(history, 0, 'capture', amount)
          const worth = exchange(pricing.rates, { currency: from, amount: total }, to) ?? 0n
          assert.equal(history.transactions[0]?.refundableValue, worth)
          assert.equal(balanceOf(history), worth - scale(worth, rate))
          const captured = balanceOf(history)
          for (const amount of amounts) operate(history, 0, 'refund', amount)
          assert.equal(balanceOf(history), captured - worth - scale(worth, rate))
        }),
        { numRuns: Math.ceil(numRuns / 25) },
      )
    }
  }
})

test('two hundred captures of one yen are worth 200 yen', () => {
  const pricing = pricingUnderTest({}, { USD: '1', JPY: '162.6' })
  const history = createHistory({ ...merchantUnderTest, currency: 'EUR' }, pricing)
  authorise(history, 200n, 'JPY')
  for (let count = 0; count < 200; count += 1) operate(history, 0, 'capture', 1n)
  assert.equal(balanceOf(history), 123n)
})
