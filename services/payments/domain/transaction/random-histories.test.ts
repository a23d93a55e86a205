import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import {
  authorise,
  balanceOf,
  createHistory,
  type History,
  merchantUnderTest,
  operate,
  operations,
  payOutAll,
  pricingUnderTest,
} from '../../testing/history-under-test.ts'
import { imbalances, sumAccount } from '../ledger/ledger.ts'
import { verify } from '../ledger/verify.ts'
import { remainingAmount } from './transaction.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 300)
const currencies = ['DKK', 'EUR', 'USD', 'JPY', 'KWD'] as const

const step = fc.oneof(
  { weight: 1, arbitrary: fc.record({ kind: fc.constant('authorise' as const), currency: currencyOf() }) },
  { weight: 1, arbitrary: fc.record({ kind: fc.constantFrom('wait' as const, 'payout' as const) }) },
  {
    weight: 8,
    arbitrary: fc.record({
      kind: fc.constant('operate' as const),
      operation: fc.constantFrom(...operations),
      index: fc.nat(4),
      amount: fc.oneof(fc.bigInt(1n, 20n), fc.bigInt(1n, 1200n)),
    }),
  },
)
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never
const steps = fc.array(step, { minLength: 5, maxLength: 60, size: 'max' })

const rates = fc.record({
  DKK: rate(),
  USD: rate(),
  JPY: rate(),
  KWD: rate(),
})

function rate() {
  return fc
    .tuple(fc.integer({ min: 0, max: 400 }), fc.integer({ min: 1, max: 9999 }))
    .map(([whole, fraction]) => `${whole}.${String(fraction).padStart(4, '0')}`)
}

function currencyOf() {
  return fc.constantFrom(...currencies)
}

const fees = { DKK: { capture: { flat: '25', rate: '0.0135' }, refund: { flat: '1', rate: '0.001' } } }

function play(steps: readonly Step[], rates: Readonly<Record<string, string>>): History {
  const history = createHistory(merchantUnderTest, pricingUnderTest(fees, rates))
  authorise(history, 1000n, 'EUR')
  for (const step of steps) {
    history.nowMs += 1000
    if (step.kind === 'operate') operateOnce(history, step)
    else if (step.kind === 'authorise') authorise(history, 1000n, step.currency)
    else if (step.kind === 'payout') payOutAll(history)
    else history.nowMs += 86_400_000
  }
  return history
}

function operateOnce(
  history: History,
  { index, operation, amount }: Extract<Step, { kind: 'operate' }>,
): void {
  const target = index % history.transactions.length
  const before = history.transactions[target]
  const outcome = operate(history, target, operation, amount)
  if (outcome !== undefined && !outcome.ok) assert.equal(history.transactions[target], before)
}

test('every history keeps the invariants, and its book can be verified', () => {
  fc.assert(
    fc.property(steps, rates, (steps, rates) => {
      const history = play(steps, rates)
      assert.deepEqual(verify(history), [])
      for (const transaction of history.transactions) {
        const { amount, pendingAmount, capturedAmount, voidedAmount } = transaction
        assert.equal(pendingAmount + capturedAmount + voidedAmount, amount)
        assert.ok(remainingAmount(transaction) >= 0n)
        assert.ok(transaction.refundableValue >= 0n)
      }
    }),
    { numRuns },
  )
})

test("the ledger sums to zero in each currency, and lines sum to the merchant's account", () => {
  fc.assert(
    fc.property(steps, rates, (steps, rates) => {
      const history = play(steps, rates)
      for (const { postings } of history.entries) assert.equal(imbalances(postings).size, 0)
      const postings = history.entries.flatMap(entry => entry.postings)
      assert.equal(imbalances(postings).size, 0)
      assert.equal(sumAccount(postings, 'merchant').get('DKK') ?? 0n, balanceOf(history))
    }),
    { numRuns },
  )
})

test('the same steps give the same book', () => {
  fc.assert(
    fc.property(steps, rates, (steps, rates) => {
      const { context: _, ...first } = play(steps, rates)
      const { context: __, ...second } = play(steps, rates)
      assert.deepEqual(first, second)
    }),
    { numRuns: Math.ceil(numRuns / 10) },
  )
})

test('refunding all captures takes exactly what they gave, whatever the parts', () => {
  const parts = fc.array(fc.bigInt(1n, 300n), { minLength: 1, maxLength: 12 })
  fc.assert(
    fc.property(parts, parts, currencyOf(), rates, (captures, refunds, currency, rates) => {
      const history = createHistory(merchantUnderTest, pricingUnderTest({}, rates))
      authorise(history, 1000n, currency)
      for (const amount of captures) operate(history, 0, 'capture', amount)
      const given = balanceOf(history)
      for (const amount of refunds) {
        operate(history, 0, 'refund', amount)
        assert.ok(balanceOf(history) >= 0n, 'a refund took more than the captures gave')
        assert.ok(balanceOf(history) <= given, 'a refund gave money')
      }
      const [transaction] = history.transactions
      if (transaction !== undefined) operate(history, 0, 'refund', remainingAmount(transaction))
      assert.equal(balanceOf(history), 0n)
      const exchanged = sumAccount(
        history.entries.flatMap(entry => entry.postings),
        'exchange',
      )
      assert.deepEqual(
        [...exchanged.values()].filter(sum => sum !== 0n),
        [],
      )
    }),
    { numRuns },
  )
})

test('a changed record is detected', () => {
  const changes = fc.constantFrom<(history: History) => void>(
    ({ transactions: [first], transactions }) => {
      if (first !== undefined) transactions[0] = { ...first, refundedAmount: first.refundedAmount + 1n }
    },
    ({ transactions: [first], transactions }) => {
      if (first !== undefined) transactions[0] = { ...first, trail: first.trail.slice(1) }
    },
    ({ lines: [first], lines }) => {
      if (first !== undefined) lines[0] = { ...first, balance: first.balance + 1n }
    },
    ({ lines }) => void lines.pop(),
    ({ entries }) => void entries.pop(),
    ({ entries: [first], entries }) => {
      if (first !== undefined) entries[0] = { ...first, postings: first.postings.slice(1) }
    },
    ({ transactions }) => void transactions.shift(),
  )
  fc.assert(
    fc.property(changes, steps, rates, (change, steps, rates) => {
      const history = play([], rates)
      operate(history, 0, 'capture', 500n)
      for (const step of steps) if (step.kind === 'operate') operateOnce(history, step)
      change(history)
      assert.notDeepEqual(verify(history), [])
    }),
    { numRuns },
  )
})
