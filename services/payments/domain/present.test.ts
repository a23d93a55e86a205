import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  authorise,
  createHistory,
  merchantUnderTest,
  operate,
  pricingUnderTest,
} from '../testing/history-under-test.ts'
import {
  presentCard,
  presentFraudAlert,
  presentLine,
  presentMerchant,
  presentNewApp,
  presentRejection,
  presentTransaction,
} from './present.ts'
import { reject, rejectField, rejectProcessing } from './rejections.ts'

const pricing = pricingUnderTest({ DKK: { capture: { flat: '25', rate: '0.0135' } } })

test('a transaction has the fields of the public API', () => {
  const history = createHistory(merchantUnderTest, pricing)
  authorise(history, 300n, 'EUR')
  for (const [operation, amount] of [
    ['capture', 100n],
    ['void', 40n],
    ['dispute', 10n],
    ['win', 0n],
  ] as const) {
    operate(history, 0, operation, amount)
  }
  const [transaction] = history.transactions
  const [line] = history.lines
  const [dispute] = history.disputes
  assert.ok(transaction && line && dispute)
  const created = '1970-01-01T00:16:40.000Z'
  const none = { flat: 0, rate: 0, total: 0 }
  const descriptor = 'Coffee & John'
  assert.deepEqual(presentTransaction(transaction), {
    id: transaction.id,
    merchantId: merchantUnderTest.id,
    test: true,
    created,
    currency: 'EUR',
    amount: 300,
    descriptor,
    pendingAmount: 160,
    capturedAmount: 100,
    refundedAmount: 0,
    voidedAmount: 40,
    disputedAmount: 0,
    card: { bin: '410000', last4: '0001', expiry: '2066-08-31T23:59:59.999Z', scheme: 'visa' },
    recurring: true,
    successful: true,
    error: false,
    trail: [
      {
        id: transaction.trail[0]?.id,
        kind: 'capture',
        capture: true,
        created,
        amount: 100,
        balance: 711,
        fee: { flat: 25, rate: 10, total: 35 },
        descriptor,
        lineId: line.id,
      },
      {
        id: transaction.trail[1]?.id,
        kind: 'void',
        void: true,
        created,
        amount: 40,
        balance: 0,
        fee: none,
        descriptor,
      },
      {
        id: transaction.trail[2]?.id,
        kind: 'dispute',
        dispute: { id: dispute.id, won: true },
        created,
        amount: 10,
        balance: 0,
        fee: none,
        descriptor,
        lineId: history.lines[2]?.id,
      },
    ],
    trailLength: 3,
  })
  assert.deepEqual(presentLine(line), {
    id: line.id,
    merchantId: merchantUnderTest.id,
    test: true,
    created,
    balance: 711,
    fee: 35,
    kind: 'capture',
    description: 'Capture',
    amount: { amount: 100, currency: 'EUR' },
    transactionId: transaction.id,
    capture: true,
  })
})

test('a transaction is shown without its internal fields', () => {
  const history = createHistory()
  const shown = JSON.stringify(presentTransaction(authorise(history, 300n, 'DKK', 7)))
  for (const secret of ['token', 'fingerprint', 'processorReference', 'refundableValue']) {
    assert.equal(shown.includes(secret), false, secret)
  }
  assert.match(shown, /"successful":false,"error":\{"code":7,/)
})

test('a card, a fraud alert, a merchant and a new app have their fields', () => {
  const { card, cardReference: reference } = authorise(createHistory(), 1n, 'DKK')
  const shared = { id: 'i', merchantId: 'm' }
  const created = '1970-01-01T00:00:00.000Z'
  assert.deepEqual(presentCard({ ...shared, createdMs: 0, card, reference, notes: null }), {
    ...shared,
    created,
    bin: '410000',
    last4: '0001',
    expiry: '2066-08-31T23:59:59.999Z',
    scheme: 'visa',
    notes: null,
  })
  const fraud = { ...shared, transactionId: 't', createdMs: 0 }
  assert.deepEqual(presentFraudAlert({ ...fraud, reportedMs: null, reason: null }), {
    ...shared,
    transactionId: 't',
    created,
  })
  assert.equal(presentFraudAlert({ ...fraud, reportedMs: 0, reason: 6 })['reason'], 6)
  assert.equal(presentMerchant(merchantUnderTest)['key'], merchantUnderTest.key)
  assert.deepEqual(presentNewApp({ id: 'i', name: null, createdMs: 0 }, 'k'), {
    id: 'i',
    name: null,
    key: 'k',
  })
})

test('a validation error is shown as a list, any other rejection as an object', () => {
  assert.deepEqual(presentRejection(rejectField('amount', 'too_large', 'm').rejection), [
    { field: 'amount', code: 'too_large', message: 'm' },
  ])
  assert.deepEqual(presentRejection(reject('conflict').rejection), {
    code: 'conflict',
    message: 'The record was changed by another request. Read it again.',
  })
  assert.deepEqual(presentRejection(rejectProcessing(7).rejection), {
    code: 'processing_error',
    message: 'The payment was declined.',
    error: {
      code: 7,
      message: 'Insufficient funds',
      client: 'There is not enough money on the account. Please use another card.',
      merchant: 'The account has too little money; it can have more later.',
      retry: true,
    },
  })
})
