import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { isLegalKey } from './request.ts'

test('a key has at most 250 bytes, and neither spaces nor control characters', () => {
  const table: readonly [string, boolean][] = [
    ['domain_key_value_1234', true],
    ['x'.repeat(250), true],
    ['x'.repeat(251), false],
    ['ä'.repeat(125), true],
    [`${'ä'.repeat(125)}x`, false],
    ['€'.repeat(83), true],
    ['€'.repeat(84), false],
    ['😀'.repeat(62), true],
    ['😀'.repeat(63), false],
    ['', false],
    ['a b', false],
    ['a\tb', false],
    ['a\r\nflush_all\r\n', false],
    ['a\u0000', false],
    ['a\u007f', false],
    ['!~', true],
    ['\u00a0', true],
  ]
  for (const [key, legal] of table) assert.equal(isLegalKey(key), legal, JSON.stringify(key))
})

test('the rule applies to the bytes of UTF-8', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'binary', maxLength: 300 }), key => {
      const bytes = Buffer.from(key)
      const legal =
        bytes.length > 0 && bytes.length <= 250 && bytes.every(byte => byte > 0x20 && byte !== 0x7f)
      assert.equal(isLegalKey(key), legal)
    }),
    { numRuns: 30 },
  )
})
