import assert from 'node:assert/strict'
import { test } from 'node:test'
import { countryCodes, isIban, normaliseIban } from './fields.ts'

test('IBANs of several countries are valid', () => {
  const ibans = [
    'DK50 0040 0440 1162 43',
    'GB82 WEST 1234 5698 7654 32',
    'NO93 8601 1117 947',
    'MT84 MALT 0110 0001 2345 MTLC AST0 01S',
  ]
  for (const iban of ibans) assert.ok(isIban(normaliseIban(iban)), iban)
})

test('a wrong character or two swapped ones make an IBAN invalid', () => {
  const iban = 'GB82WEST12345698765432'
  for (let index = 4; index < iban.length; index++) {
    const wrong = iban.at(index) === '0' ? '1' : '0'
    assert.equal(isIban(iban.slice(0, index) + wrong + iban.slice(index + 1)), false, String(index))
  }
  assert.equal(isIban('GB82WEST12345698764532'), false)
})

test('text of another form is not an IBAN', () => {
  for (const text of [
    '',
    'DK',
    '5000400440116243',
    'DK5000400440116243 ',
    'dk5000400440116243',
    `DK50${'1'.repeat(31)}`,
  ]) {
    assert.equal(isIban(text), false, text)
  }
})

test('the table of countries has 249 codes', () => {
  assert.equal(new Set(countryCodes).size, 249)
  assert.ok(countryCodes.every(code => /^[A-Z]{2}$/.test(code)))
})
