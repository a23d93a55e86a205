import assert from 'node:assert/strict'
import { test } from 'node:test'
import { hasCardNumber } from './card.ts'
import { parseCapture, parseCard, parseMerchant, parseTransaction } from './input/request-bodies.ts'

const number = '4111 1111 1111 1111'

test('text that could contain a card number is detected, grouped or not', () => {
  const table: readonly (readonly [string, boolean])[] = [
    [number, true],
    ['4111111111111111', true],
    ['pays with 4111-1111-1111-1111 today', true],
    ['5555 5555 5555 4444', true],
    ['2223003122003222', true],
    ['3782 822463 10005', true],
    ['6011.1111.1111.1117', true],
    ['4111 1111 1111 1112', false],
    ['order 20261122-000017', false],
    ['+45 12 34 56 78', false],
    ['41111111111111110000001', false],
    ['9999999999999995', false],
    ['', false],
  ]
  for (const [text, found] of table) assert.equal(hasCardNumber(text), found, text)
})

test('no stored field accepts a card number, and no message repeats it', () => {
  const payment = { transactionId: '0197f3a2-5c00-7a10-8b3c-5d2e9f014a05', currency: 'DKK', amount: 1 }
  const merchant = {
    currency: 'DKK',
    email: 'a@example.com',
    website: 'https://example.com',
    descriptor: 'A',
  }
  const digits = Number(number.replaceAll(' ', ''))
  const rejected = [
    parseTransaction({ ...payment, custom: { note: number } }, 'json'),
    parseTransaction({ ...payment, custom: { deep: [{ card: digits }] } }, 'json'),
    parseTransaction({ ...payment, custom: { [number]: true } }, 'json'),
    parseTransaction({ ...payment, descriptor: number }, 'json'),
    parseCapture({ amount: 1, descriptor: number }, 'json'),
    parseCard({ transactionId: payment.transactionId, notes: number }, 'json'),
    parseMerchant({ ...merchant, company: { country: 'DK' }, name: number }, 'json', ['DKK']),
    parseMerchant({ ...merchant, company: { country: 'DK' }, descriptor: number }, 'json', ['DKK']),
  ]
  for (const [index, outcome] of rejected.entries()) {
    assert.ok(!outcome.ok, `${index}`)
    assert.deepEqual(
      outcome.rejection.fields.map(({ code }) => code),
      ['card_number'],
      `${index}`,
    )
    assert.doesNotMatch(JSON.stringify(outcome), /4111/)
  }
})

test('an empty name is rejected', () => {
  const merchant = {
    currency: 'DKK',
    email: 'a@example.com',
    website: 'https://example.com',
    descriptor: 'A',
  }
  const outcome = parseMerchant({ ...merchant, company: { country: 'DK' }, name: '' }, 'json', ['DKK'])
  assert.ok(!outcome.ok)
  assert.deepEqual(outcome.rejection.fields, [
    { field: 'name', code: 'too_small', message: 'is empty; leave the field out, or send null' },
  ])
})
