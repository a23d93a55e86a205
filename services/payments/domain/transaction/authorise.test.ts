import assert from 'node:assert/strict'
import { test } from 'node:test'
import {
  authorise,
  createHistory,
  merchantUnderTest,
  pricingUnderTest,
} from '../../testing/history-under-test.ts'
import { accept, rejections } from '../rejections.ts'
import { checkAuthorisation, recordAuthorisation, recurringSource } from './authorise.ts'
import { processingErrorCodes } from './processing-errors.ts'

const input = { currency: 'EUR', amount: 300n, descriptor: null, custom: null }

test('a closed merchant and a currency without a rate are rejected before the processor is called', () => {
  const pricing = pricingUnderTest()
  assert.equal(checkAuthorisation(merchantUnderTest, input, pricing), undefined)
  const closed = checkAuthorisation({ ...merchantUnderTest, closedMs: 1 }, input, pricing)
  assert.equal(closed?.rejection.code, 'merchant_closed')
  const unknown = checkAuthorisation(merchantUnderTest, { ...input, currency: 'SEK' }, pricing)
  assert.equal(unknown?.rejection.processingError?.code, 1)
})

test('a recurring transaction charges the card of an earlier one, or a saved one, of the merchant', () => {
  const history = createHistory()
  const earlier = authorise(history, 300n, 'DKK')
  const { card, cardReference } = earlier
  assert.deepEqual(recurringSource(merchantUnderTest, earlier), accept({ card, cardReference }))
  const declined = recurringSource(merchantUnderTest, authorise(history, 300n, 'DKK', 7))
  assert.ok(!declined.ok)
  assert.equal(declined.rejection.fields[0]?.field, 'transactionId')
  const saved = { id: 'c', merchantId: 'other', createdMs: 0, card, reference: cardReference, notes: null }
  const foreign = recurringSource(merchantUnderTest, saved)
  assert.ok(!foreign.ok)
  assert.equal(foreign.rejection.fields[0]?.field, 'cardId')
  const own = recurringSource(merchantUnderTest, { ...saved, merchantId: merchantUnderTest.id })
  assert.deepEqual(own, accept({ card, cardReference }))
})

test('a recurring transaction has no 3-D Secure', () => {
  const { card, cardReference } = authorise(createHistory(), 1n, 'DKK')
  const authorisation: Parameters<typeof recordAuthorisation>[0] = {
    id: 'i',
    nowMs: 5,
    merchant: merchantUnderTest,
    input: { ...input, descriptor: 'Own' },
    source: { card, cardReference },
    result: { error: null, processorReference: 'r', tds: 'full' },
    recurring: false,
    reference: 'Order 7',
    lifetimeMs: 10,
  }
  const transaction = recordAuthorisation(authorisation)
  assert.deepEqual([transaction.tds, transaction.descriptor, transaction.expiresMs], ['full', 'Own', 15])
  assert.throws(() => recordAuthorisation({ ...authorisation, recurring: true }), /3-D Secure/)
})

test('the catalogues of errors are complete', () => {
  assert.deepEqual(
    processingErrorCodes.filter(code => code < 1 || code > 31),
    [],
  )
  for (const [code, { status, message }] of Object.entries(rejections)) {
    assert.match(code, /^[a-z_]+$/)
    assert.ok(status >= 400 && status < 600, code)
    assert.match(message, /^[A-Z].*\.$/, code)
  }
})
