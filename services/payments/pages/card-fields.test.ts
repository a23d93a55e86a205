import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createContext, runInContext } from 'node:vm'
import fc from 'fast-check'
import { testCards } from '../processor/test-cards.ts'
import { browserFunctions } from './browser/assets.ts'
import * as onServer from './card-fields.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 300)
const nowMs = Date.UTC(2026, 7, 31, 23, 59)

/** The functions as in a browser: evaluated from their source text, in an empty context. */
const exported = ['checkNumber', 'checkExpiry', 'checkCode', 'groupNumber', 'groupExpiry', 'readExpiry']
const inBrowser: Pick<
  typeof onServer,
  'checkNumber' | 'checkExpiry' | 'checkCode' | 'groupNumber' | 'groupExpiry'
> = runInContext(`(() => {${browserFunctions}\nreturn { ${exported.join(', ')} }})()`, createContext({}))

const checked = `
  number                                      → number-missing
  number 4100 0000 0000 0001                  → fine
  number 4100-0000-0000-0001                  → fine
  number 5500000000000004                     → fine
  number 2221 0000 0000 0009                  → fine
  number 1000 0000 0000 0000                  → fine
  number 4100 0000 0000 0002                  → number-wrong
  number 4100 0000 00                         → number-incomplete
  number 5500 0000 0000 000                   → number-incomplete
  number 41                                   → fine-so-far
  number 3400 0000 0000 009                   → number-scheme
  number 4100 abcd                            → number-wrong
  number 55000000000000040                    → number-wrong
  expiry                                      → expiry-missing
  expiry 08 / 26                              → fine
  expiry 8/26                                 → fine
  expiry 0826                                 → fine
  expiry 08/2026                              → fine
  expiry 07 / 26                              → expiry-past
  expiry 12 / 25                              → expiry-past
  expiry 13 / 30                              → expiry-wrong
  expiry 00 / 30                              → expiry-wrong
  expiry 08 / 3                               → expiry-wrong
  expiry August                               → expiry-wrong
  code                                        → code-missing
  code 123                                    → fine
  code 12                                     → code-wrong
  code 1234                                   → code-wrong
  code 12a                                    → code-wrong
`
test('fields are checked the same on the server and in the browser', () => {
  for (const line of checked.trim().split('\n')) {
    const [left = '', expected = ''] = line.split('→').map(part => part.trim())
    const [field = '', ...rest] = left.split(' ')
    const text = rest.join(' ')
    for (const { checkNumber, checkExpiry, checkCode } of [onServer, inBrowser]) {
      const checks = {
        number: () => checkNumber(text, true),
        expiry: () => checkExpiry(text, nowMs),
        code: () => checkCode(text),
      }
      const found = checks[field === 'number' || field === 'expiry' ? field : 'code']() ?? 'fine'
      assert.equal(found, expected === 'fine-so-far' ? 'number-incomplete' : expected, line)
    }
  }
})

test('the test card of the public service is a test card in test mode only', () => {
  assert.equal(onServer.checkNumber('1000 0000 0000 0000', false), 'number-scheme')
})

// Each row has an action and the text of the field before and after formatting. `|` is the caret.
const typed = `
  type 4|                      → 4|
  type 4100|                   → 4100|
  type 41000|                  → 4100 0|
  type 4100|0                  → 4100 |0
  type 4100 05|0 0             → 4100 05|00
  type 41|00 0000              → 41|00 0000
  type 41009| 0000             → 4100 9|000 0
  delete 4100|0000             → 4100| 0000
  delete 4100 |                → 4100|
  delete 410|0000              → 410|0 000
  delete |100 0000             → |1000 000
  type 4100-0000-0000-0001|    → 4100 0000 0000 0001|
  type 4100x|                  → 4100|
  type 55000000000000041|      → 5500 0000 0000 0004|
  type 41000000000000000012|   → 4100 0000 0000 0000 001|
`
test('a number is grouped, and the caret stays at its digit', () => checkTyped(typed, 'groupNumber'))

const typedExpiry = `
  type 0|               → 0|
  type 1|               → 1|
  type 5|               → 05 / |
  type 08|              → 08 / |
  type 08 / 3|          → 08 / 3|
  type 08 / 30|         → 08 / 30|
  type 08 / 309|        → 08 / 30|
  type 1/|              → 01 / |
  type 08/2030|         → 08 / 30|
  type 8/30|            → 08 / 30|
  type 0830|            → 08 / 30|
  type 1|8 / 30         → 1|8 / 30
  delete 08 / |         → 08|
  delete 08 /|          → 08|
  delete 0|             → 0|
  delete 08 / |0        → 08| / 0
`
test('an expiry date gets its slash, and the slash can be deleted', () =>
  checkTyped(typedExpiry, 'groupExpiry'))

function checkTyped(table: string, name: 'groupNumber' | 'groupExpiry'): void {
  for (const line of table.trim().split('\n')) {
    const [left = '', expected = ''] = line.trim().split(/ *→ /)
    const [action = ''] = left.split(' ')
    const before = left.slice(action.length + 1)
    for (const side of [onServer, inBrowser]) {
      const { text, caret } = side[name](before.replace('|', ''), before.indexOf('|'), action === 'delete')
      assert.equal(`${text.slice(0, caret)}|${text.slice(caret)}`.trim(), expected.trim(), line)
    }
  }
}

test('grouping keeps every digit, is idempotent, and keeps the caret inside', () => {
  const text = fc.string({ unit: fc.constantFrom(...'0123456789 /-x'), maxLength: 24 })
  fc.assert(
    fc.property(text, fc.nat(24), fc.boolean(), (value, at, isDeletion) => {
      for (const group of [onServer.groupNumber, onServer.groupExpiry]) {
        const once = group(value, Math.min(at, value.length), isDeletion)
        assert.ok(once.caret >= 0 && once.caret <= once.text.length)
        assert.deepEqual(group(once.text, once.caret, isDeletion).text, once.text)
      }
      const digits = value.replace(/\D/g, '')
      assert.ok(digits.startsWith(onServer.groupNumber(value, 0, isDeletion).text.replaceAll(' ', '')))
    }),
    { numRuns },
  )
})

test('a form without a card, or with other values than text, reports the missing fields', () => {
  const errors = { number: 'number-missing', expiry: 'expiry-missing', code: 'code-missing' }
  for (const body of [{}, { number: {}, expiry: ['1'], code: 3 }]) {
    assert.deepEqual(onServer.readCardFields(body, { isTest: true, nowMs }), { errors })
  }
  const body = { number: ' 4100 0000 0000 0001 ', expiry: '8/2066', code: ' 123 ' }
  assert.deepEqual(onServer.readCardFields(body, { isTest: true, nowMs }), {
    card: { number: '4100000000000001', expiryMonth: 8, expiryYear: 2066, code: '123' },
  })
})

test('in test mode only test cards are accepted', () => {
  for (const { number } of testCards) assert.equal(onServer.checkNumber(number, true), undefined, number)
  // Public example numbers of the schemes stand for real cards.
  for (const number of ['4111 1111 1111 1111', '5555 5555 5555 4444', '2223 0031 2200 3222']) {
    assert.equal(onServer.checkNumber(number, true), 'number-real', number)
    assert.equal(onServer.checkNumber(number, false), undefined, number)
  }
  assert.equal(onServer.checkNumber('4111 1111', true), 'number-incomplete')
})
