import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { merchantFields } from '../merchant.ts'
import { maxAmount } from '../money/money.ts'
import type { Result } from '../rejections.ts'
import { parseForm } from './form.ts'
import {
  parseApp,
  parseAssociation,
  parseCapture,
  parseCard,
  parseLink,
  parseMember,
  parseMerchant,
  parseMerchantUpdate,
  parseRefund,
  parseTransaction,
  parseVoid,
} from './request-bodies.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 300)
const funding = ['DKK', 'EUR']
const someId = '01890a5d-ac96-774b-bcce-b302099a8057'

const merchant = {
  company: { country: 'DK' },
  currency: 'DKK',
  email: 'john@example.com',
  website: 'https://example.com',
  descriptor: 'Coffee & John',
  test: true,
}

/** Returns a rejection as `field code`, or the value. */
function outcome(result: Result<unknown>): unknown {
  if (result.ok) return result.value
  const { code, fields } = result.rejection
  return fields.length === 0 ? code : fields.map(error => `${error.field} ${error.code}`)
}

test('a merchant is parsed the same from JSON and from a form', () => {
  const json = outcome(parseMerchant(merchant, 'json', funding))
  const form = parseForm(
    'company[country]=DK&currency=DKK&email=john%40example.com&website=https://example.com' +
      '&descriptor=Coffee+%26+John&test=yes&name=&bank%5Biban%5D=',
  )
  assert.ok(form.ok)
  assert.deepEqual(outcome(parseMerchant(form.value, 'form', funding)), json)
  const missing = Object.entries(merchantFields).filter(([name]) => !(name in merchant))
  assert.deepEqual(json, {
    ...merchant,
    ...Object.fromEntries(missing.map(([name]) => [name, null])),
    company: { country: 'DK', number: null },
  })
})

test('an object in a form is no flag, whatever its fields are called', () => {
  for (const field of ['toString', 'valueOf', 'x']) {
    const form = parseForm(`company[country]=DK&test[${field}]=1`)
    assert.ok(form.ok)
    const rejected = outcome(parseMerchant({ ...merchant, ...form.value }, 'form', funding))
    assert.deepEqual(rejected, ['test type'])
  }
})

/** Changes of the valid merchant, each with the expected rejected fields. */
const merchants: readonly (readonly [change: object, rejected: string])[] = [
  [{ name: 'x'.repeat(101) }, 'name too_long'],
  [{ name: 'a\u0000b' }, 'name format'],
  [{ name: '\ud800' }, 'name format'],
  [{ name: 7 }, 'name type'],
  [{ currency: undefined }, 'currency required'],
  [{ currency: 'dkk' }, 'currency format'],
  [{ currency: 'USD' }, 'currency unsupported'],
  [{ test: 'yes' }, 'test type'],
  [{ email: null }, 'email required'],
  [{ email: 'john' }, 'email format'],
  [{ email: 'john@localhost' }, 'email format'],
  [{ email: 'a@b.dk\r\nBcc: c@d.dk' }, 'email format'],
  [{ email: `${'a'.repeat(250)}@b.dk` }, 'email too_long'],
  [{ website: 'example.com' }, 'website format'],
  [{ website: 'javascript:alert(1)' }, 'website format'],
  [{ website: 'https://john:secret@example.com' }, 'website format'],
  [{ descriptor: 'x'.repeat(23) }, 'descriptor too_long'],
  [{ descriptor: 'Æbler' }, 'descriptor format'],
  [{ descriptor: 'a\nb' }, 'descriptor format'],
  [{ company: undefined }, 'company required'],
  [{ company: 'DK' }, 'company type'],
  [{ company: {} }, 'company.country required'],
  [{ company: { country: 'UK' } }, 'company.country format'],
  [{ company: { country: 'DK', vat: 1 } }, 'company.vat unknown'],
  [{ bank: { iban: 'DK5000400440116244' } }, 'bank.iban format'],
  [{ merchantId: someId }, 'merchantId unknown'],
  [{ status: 'open' }, 'status unknown'],
]

test('each field of a merchant is checked', () => {
  for (const [change, rejected] of merchants) {
    const result = parseMerchant({ ...merchant, ...change }, 'json', funding)
    assert.deepEqual(outcome(result), [rejected], JSON.stringify(change))
  }
})

test('all problems are reported at once, up to a limit', () => {
  assert.deepEqual(outcome(parseMerchant(undefined, 'json', funding)), [
    'email required',
    'website required',
    'descriptor required',
    'company required',
    'currency required',
  ])
  const many = Object.fromEntries(Array.from({ length: 1000 }, (_, index) => [`field${index}`, 1]))
  const told = parseApp(many, 'json')
  assert.ok(!told.ok)
  assert.equal(told.rejection.fields.length, 50)
})

test('an IBAN is kept without spaces, in capitals', () => {
  const result = parseMerchant(
    { ...merchant, bank: { iban: 'gb82 WEST 1234 5698 7654 32' } },
    'json',
    funding,
  )
  assert.deepEqual(result.ok && result.value.bank, { iban: 'GB82WEST12345698765432' })
})

const amounts: readonly (readonly [encoding: 'json' | 'form', value: unknown, expected: unknown])[] = [
  ['json', 1, 1n],
  ['json', Number(maxAmount), maxAmount],
  ['json', Number(maxAmount) + 1, ['amount too_large']],
  ['json', 0, ['amount too_small']],
  ['json', -0, ['amount too_small']],
  ['json', -1, ['amount too_small']],
  ['json', 1.5, ['amount type']],
  ['json', Number.POSITIVE_INFINITY, ['amount type']],
  ['json', 1e300, ['amount too_large']],
  ['json', 2 ** 53 + 2, ['amount too_large']],
  ['json', '100', ['amount type']],
  ['json', true, ['amount type']],
  ['json', [100], ['amount type']],
  ['json', null, ['amount required']],
  ['form', '100', 100n],
  ['form', '', ['amount required']],
  ['form', '100 ', ['amount type']],
  ['form', '0100', ['amount type']],
  ['form', '1e2', ['amount type']],
  ['form', '0x10', ['amount type']],
  ['form', '-1', ['amount type']],
  ['form', '٣', ['amount type']],
  ['form', '9007199254740993', ['amount too_large']],
  ['form', '9'.repeat(1000), ['amount type']],
  ['form', { a: '1' }, ['amount type']],
]

test('an amount is a whole number of minor units, of the type that the encoding has', () => {
  for (const [encoding, value, expected] of amounts) {
    const result = parseVoid({ amount: value }, encoding)
    const found = result.ok ? result.value.amount : outcome(result)
    assert.deepEqual(found, expected, `${encoding} ${String(value)}`)
  }
})

test('a transaction comes from exactly one of a transaction and a card', () => {
  const fields = { currency: 'EUR', amount: 200, custom: { source: 'node client test' } }
  const input = { currency: 'EUR', amount: 200n, custom: fields.custom, descriptor: null }
  const of = (source: object) => outcome(parseTransaction({ ...fields, ...source }, 'json'))
  assert.deepEqual(of({ transactionId: someId }), { ...input, source: { transactionId: someId } })
  assert.deepEqual(of({ cardId: someId }), { ...input, source: { cardId: someId } })
  assert.deepEqual(of({}), ['transactionId required'])
  assert.deepEqual(of({ cardId: someId, transactionId: someId }), ['cardId exclusive'])
  assert.deepEqual(of({ cardId: 'x', amount: 0 }), ['cardId format', 'amount too_small'])
  assert.deepEqual(of({ amount: 0 }), ['amount too_small', 'transactionId required'])
})

test('fields that only the service sets are rejected', () => {
  for (const field of [
    'merchantId',
    'status',
    'capturedAmount',
    'pendingAmount',
    'test',
    'error',
    '__proto__',
  ]) {
    const body: unknown = JSON.parse(`{"amount": 1, "${field}": 1}`)
    for (const parse of [parseCapture, parseRefund, parseVoid]) {
      assert.deepEqual(outcome(parse(body, 'json')), [`${field} unknown`])
    }
  }
})

const customs: readonly (readonly [value: unknown, code: string | null])[] = [
  [{}, null],
  [{ order: 7, lines: [{ text: 'Ærø', price: 1.5 }], gift: null }, null],
  [[], 'type'],
  ['text', 'type'],
  [{ a: '\u0000' }, 'format'],
  [{ '\u0000': 1 }, 'format'],
  [{ a: ['\ud800'] }, 'format'],
  [{ a: Number.POSITIVE_INFINITY }, 'format'],
  [JSON.parse('{"a": {"__proto__": {"admin": true}}}'), 'format'],
  [{ a: 'x'.repeat(8_192) }, 'too_long'],
  [nested(8), null],
  [nested(9), 'too_deep'],
  [nested(2000), 'too_deep'],
]

function nested(depth: number): object {
  return JSON.parse(`${'{"a":'.repeat(depth)}1${'}'.repeat(depth)}`)
}

test('custom data are any object within the limits, and are stored unchanged', () => {
  for (const [value, code] of customs) {
    const body = { currency: 'DKK', amount: 1, cardId: someId, custom: value }
    const result = parseTransaction(body, 'json')
    if (code === null) assert.deepEqual(result.ok && result.value.custom, value)
    else assert.deepEqual(outcome(result), [`custom ${code}`])
  }
})

test('only the name, email and descriptor of a merchant can be changed', () => {
  assert.deepEqual(outcome(parseMerchantUpdate({}, 'json')), {})
  assert.deepEqual(outcome(parseMerchantUpdate({ name: 'Coffee John' }, 'json')), { name: 'Coffee John' })
  assert.deepEqual(outcome(parseMerchantUpdate({ name: null }, 'json')), { name: null })
  assert.deepEqual(outcome(parseMerchantUpdate({ email: 'a@b.dk', descriptor: 'C' }, 'json')), {
    email: 'a@b.dk',
    descriptor: 'C',
  })
  assert.deepEqual(outcome(parseMerchantUpdate({ currency: 'EUR', bank: {}, balance: 1 }, 'json')), [
    'currency immutable',
    'bank immutable',
    'balance unknown',
  ])
})

test('apps, members, associations, cards and other inputs are parsed', () => {
  assert.deepEqual(outcome(parseApp(undefined, 'json')), { name: null })
  assert.deepEqual(outcome(parseMember({ email: 'one@example.com' }, 'form')), { email: 'one@example.com' })
  assert.deepEqual(outcome(parseAssociation({ appId: someId }, 'form')), { appId: someId })
  assert.deepEqual(outcome(parseAssociation({ appId: "' OR 1=1" }, 'json')), ['appId format'])
  assert.deepEqual(outcome(parseCard({ transactionId: someId, notes: 'n' }, 'json')), {
    transactionId: someId,
    notes: 'n',
  })
  assert.deepEqual(outcome(parseApp([], 'json')), [' type'])
})

test('a link is parsed, and each invalid field is reported', () => {
  const link = { key: 'k', amount: '100', currency: 'DKK', locale: 'da_DK', utm_source: 'mail' }
  assert.deepEqual(outcome(parseLink(link)), {
    key: 'k',
    amount: 100n,
    currency: 'DKK',
    locale: 'da',
    reference: null,
    text: null,
    redirect: null,
  })
  for (const locale of ['en_US', 'en', 'fr', 'dax', undefined]) {
    const result = parseLink({ key: 'k', locale })
    assert.equal(result.ok && result.value.locale, 'en')
  }
  assert.deepEqual(outcome(parseLink({ key: 'k', redirect: 'javascript:alert(1)' })), ['redirect format'])
})

test('no body makes a parser throw, and every rejection names a field', () => {
  const parsers = [
    parseApp,
    parseMember,
    parseAssociation,
    parseTransaction,
    parseCapture,
    parseRefund,
    parseVoid,
    parseCard,
    parseMerchantUpdate,
    (body: unknown, encoding: 'json' | 'form') => parseMerchant(body, encoding, funding),
    (body: unknown) => parseLink(body),
  ]
  const names = fc.constantFrom(
    'name',
    'amount',
    'currency',
    'custom',
    'company',
    'bank',
    'key',
    '__proto__',
    'x',
  )
  const body = fc.oneof(fc.anything(), fc.dictionary(names, fc.anything()))
  fc.assert(
    fc.property(
      fc.constantFrom(...parsers),
      body,
      fc.constantFrom('json', 'form'),
      (parse, body, encoding) => {
        const result = parse(body, encoding)
        if (!result.ok) assert.ok(result.rejection.fields.every(({ message }) => message.length < 300))
      },
    ),
    { numRuns },
  )
})

test('a card number in a wrong field is not repeated in the rejection', () => {
  const canaries = ['4100000000000001', '4100 0000 0000 0001', '4100-0000-0000-0001']
  const fields = [
    'name',
    'currency',
    'test',
    'email',
    'website',
    'company',
    'bank',
    'amount',
    'cardId',
    'custom',
  ]
  for (const canary of canaries) {
    for (const field of [...fields, 'locale', 'limit', canary]) {
      for (const value of [
        canary,
        Number(canary.replaceAll(/[ -]/g, '')),
        { [canary]: canary, country: canary },
      ]) {
        const body = { [field]: value }
        const answers = [
          parseMerchant(body, 'json', funding),
          parseTransaction(body, 'form'),
          parseCapture(body, 'json'),
          parseLink({ key: canary, ...body }),
          parseForm(`${field}=1&${field}=2`),
        ]
        const said = JSON.stringify(answers.filter(answer => !answer.ok))
        for (const form of canaries) assert.equal(said.includes(form), false, said)
      }
    }
  }
})

const forms: readonly (readonly [body: string, expected: unknown])[] = [
  ['', {}],
  ['a=1&b=2', { a: '1', b: '2' }],
  ['a[b][c]=1&a[b][d]=2&a[e]=', { a: { b: { c: '1', d: '2' }, e: '' } }],
  ['a=1+2%263', { a: '1 2&3' }],
  ['a', { a: '' }],
  ['constructor[x]=1', { constructor: { x: '1' } }],
  ['a=1&a=2', 'malformed_body'],
  ['a=1&a[b]=2', 'malformed_body'],
  ['a[b]=1&a=2', 'malformed_body'],
  ['a=%zz', 'malformed_body'],
  ['a[b=1', 'malformed_body'],
  ['a[]=1', 'malformed_body'],
  ['__proto__[admin]=1', 'malformed_body'],
  ['a[__proto__][admin]=1', 'malformed_body'],
  [`a${'[b]'.repeat(20)}=1`, 'malformed_body'],
  ['a=1&'.repeat(1000), 'malformed_body'],
]

test('forms are decoded with nested fields, and malformed ones are rejected', () => {
  for (const [body, expected] of forms) assert.deepEqual(outcome(parseForm(body)), expected, body)
  assert.equal(Object.hasOwn(Object.prototype, 'admin'), false)
})
