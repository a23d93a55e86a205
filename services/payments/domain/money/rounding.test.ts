import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  authorise,
  balanceOf,
  createHistory,
  merchantUnderTest,
  operate,
  pricingUnderTest,
} from '../../testing/history-under-test.ts'
import { remainingAmount } from '../transaction/transaction.ts'
import { exchange } from './exchange.ts'
import { currencyCodes, maxJsonAmount, scale } from './money.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 300)
const currencies = ['DKK', 'EUR', 'USD', 'JPY', 'KWD'] as const
const rate = { numerator: 135n, denominator: 10_000n }
const fees = Object.fromEntries(
  currencies.map(currency => [currency, { capture: { rate: '0.0135' }, refund: { rate: '0.0135' } }]),
)

const parts = fc.array(fc.bigInt(1n, 400n), { minLength: 1, maxLength: 60 })
const sumOf = (amounts: readonly bigint[]) => amounts.reduce((sum, amount) => sum + amount, 0n)

test('partial captures are worth and cost the same as one capture, between all currencies', () => {
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

test('partial refunds and disputes take the same as one refund, between all currencies', () => {
  for (const from of currencies) {
    for (const to of currencies) {
      fc.assert(
        fc.property(parts, parts, fc.array(fc.boolean(), { minLength: 60 }), (captures, taken, isDispute) => {
          const pricing = pricingUnderTest()
          const captured = () => {
            const history = createHistory({ ...merchantUnderTest, currency: to }, pricing)
            authorise(history, sumOf(captures), from)
            for (const amount of captures) operate(history, 0, 'capture', amount)
            return history
          }
          const inParts = captured()
          let sum = 0n
          for (const [index, part] of taken.entries()) {
            if (sum + part > sumOf(captures)) break
            sum += part
            operate(inParts, 0, isDispute[index] ? 'dispute' : 'refund', part)
            const atOnce = captured()
            operate(atOnce, 0, 'refund', sum)
            assert.equal(balanceOf(inParts), balanceOf(atOnce), `${sum} of ${sumOf(captures)}`)
          }
        }),
        { numRuns: Math.ceil(numRuns / 25) },
      )
    }
  }
})

/** Generates a rate from 0.00001 to 99,999, as decimal text. */
const anyRate = fc
  .tuple(fc.integer({ min: 1, max: 99_999 }), fc.integer({ min: -5, max: 0 }))
  .map(([digits, exponent]) => (digits * 10 ** exponent).toFixed(5))

test('the parts of an amount are worth the same as the whole, between any currencies at any rates', () => {
  for (const from of currencyCodes) {
    fc.assert(
      fc.property(parts, fc.constantFrom(...currencyCodes), anyRate, anyRate, (amounts, to, one, other) => {
        const rates = Object.fromEntries([
          [from, one],
          [to, other],
        ])
        const pricing = pricingUnderTest({}, { ...rates, EUR: '1' })
        const history = createHistory({ ...merchantUnderTest, currency: to }, pricing)
        const total = sumOf(amounts)
        authorise(history, total, from)
        for (const amount of amounts) operate(history, 0, 'capture', amount)
        const worth = exchange(pricing.rates, { currency: from, amount: total }, to)
        assert.ok(worth !== undefined)
        // Skips captures above the largest balance, which are rejected; the next test covers them.
        fc.pre(worth <= maxJsonAmount)
        assert.equal(balanceOf(history), worth, `${total} ${from} in ${to}`)
        for (const amount of amounts) operate(history, 0, 'refund', amount)
        assert.equal(balanceOf(history), 0n, `${total} ${from} in ${to}`)
      }),
      { numRuns: Math.ceil(numRuns / 100) },
    )
  }
})

/** The exact value of the remaining amount, as a fraction. */
interface Exact {
  readonly numerator: bigint
  readonly denominator: bigint
}

test('a capture beyond the largest balance is rejected, and changes nothing', () => {
  const pricing = pricingUnderTest({}, { XOF: '0.00001', KWD: '82940.00000', EUR: '1' })
  const history = createHistory({ ...merchantUnderTest, currency: 'KWD' }, pricing)
  authorise(history, 1086n, 'XOF')
  assert.ok((operate(history, 0, 'capture', 940n) ?? assert.fail()).ok)
  const before = balanceOf(history)
  assert.equal(before, exchange(pricing.rates, { currency: 'XOF', amount: 940n }, 'KWD'))
  assert.ok(!(operate(history, 0, 'capture', 146n) ?? assert.fail()).ok)
  assert.equal(balanceOf(history), before)
  const worth = exchange(pricing.rates, { currency: 'XOF', amount: 1086n }, 'KWD') ?? 0n
  assert.ok(before <= maxJsonAmount && worth > maxJsonAmount)
})

test('operations in any order keep the value within half a minor unit of the exact one', () => {
  const steps = fc.array(
    fc.tuple(fc.constantFrom('capture', 'refund', 'dispute', 'win'), fc.bigInt(1n, 300n)),
    { minLength: 1, maxLength: 40 },
  )
  fc.assert(
    fc.property(steps, fc.constantFrom(...currencies), fc.constantFrom(...currencies), (steps, from, to) => {
      const history = createHistory({ ...merchantUnderTest, currency: to }, pricingUnderTest())
      authorise(history, 10_000n, from)
      let exact: Exact = { numerator: 0n, denominator: 1n }
      for (const [operation, amount] of steps) {
        const [before] = history.transactions
        if (before === undefined) continue
        const refundable = remainingAmount(before)
        // Skips disputes above the remaining amount, for which another rule applies.
        if (operation === 'dispute' && amount > refundable) continue
        const outcome = operate(history, 0, operation, amount)
        if (outcome === undefined || !outcome.ok) continue
        const { refundableValue } = outcome.value.transaction
        const added = refundableValue - before.refundableValue
        const { numerator, denominator } = exact
        exact =
          operation === 'capture' || operation === 'win'
            ? { numerator: numerator + added * denominator, denominator }
            : { numerator: numerator * (refundable - amount), denominator: denominator * refundable }
        const distance = exact.numerator - refundableValue * exact.denominator
        const bound = exact.denominator / 2n + exact.denominator / 10n ** 12n + 1n
        assert.ok(distance <= bound && distance >= -bound, `${operation} ${amount}`)
      }
    }),
    { numRuns },
  )
})

test('the dispute fees of the parts sum up to that of the whole', () => {
  const history = createHistory(merchantUnderTest, pricingUnderTest({ DKK: { dispute: { rate: '0.004' } } }))
  authorise(history, 100n, 'DKK')
  operate(history, 0, 'capture', 100n)
  // Separately, the fee of each dispute would be rounded, for a wrong total.
  for (let part = 0; part < 10; part += 1) operate(history, 0, 'dispute', 100n)
  assert.equal(
    history.disputes.reduce((sum, { fee }) => sum + fee.total, 0n),
    4n,
  )
  const excess = history.disputes.reduce((sum, { excessHeld }) => sum + excessHeld, 0n)
  assert.equal(excess, 900n)
})

test('many refunds of one yen take the same as one refund', () => {
  const history = createHistory(
    { ...merchantUnderTest, currency: 'EUR' },
    pricingUnderTest({}, { JPY: '162.6' }),
  )
  authorise(history, 200n, 'JPY')
  operate(history, 0, 'capture', 200n)
  for (let count = 0; count < 77; count += 1) operate(history, 0, 'refund', 1n)
  // 200 yen are worth 123 cents, so 77 yen are worth 47 cents. One cent for each yen would be 77.
  assert.equal(balanceOf(history), 123n - 47n)
})

test('two hundred captures of one yen are worth 200 yen', () => {
  const pricing = pricingUnderTest({}, { USD: '1', JPY: '162.6' })
  const history = createHistory({ ...merchantUnderTest, currency: 'EUR' }, pricing)
  authorise(history, 200n, 'JPY')
  for (let count = 0; count < 200; count += 1) operate(history, 0, 'capture', 1n)
  assert.equal(balanceOf(history), 123n)
})
