import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { StringInterner } from './wire-reader.ts'

function read(words: StringInterner, text: string): string {
  const bytes = Buffer.from(`..${text}..`)
  const end = bytes.length - 2
  return words.find(bytes, 2, end) ?? words.keep(bytes.toString('utf8', 2, end), end - 2)
}

test('a word is the text of its bytes, whatever was kept before', () => {
  const text = fc.oneof(
    fc.constantFrom('', 'a', 'key', 'kay', 'k\u00e9', '\u00e9', 'generic_key', 'generic_kez', 'x'.repeat(65)),
    fc.string({ maxLength: 80 }),
    fc.string({ unit: 'grapheme' }),
  )
  fc.assert(
    fc.property(fc.array(text, { maxLength: 50 }), texts => {
      const words = new StringInterner()
      for (const each of texts) assert.equal(read(words, each), each)
    }),
  )
})

test('a kept word is found only by its bytes', () => {
  const words = new StringInterner()
  words.keep('domain', 6)
  assert.equal(words.find(Buffer.from('domain'), 0, 6), 'domain')
  for (const other of ['dofain', 'omain', 'domains']) {
    assert.equal(words.find(Buffer.from(other), 0, other.length), undefined)
  }
})

test('invalid UTF-8 never matches a kept word', () => {
  const words = new StringInterner()
  words.keep('\u00e9', 2)
  assert.equal(words.find(Buffer.from([0xe9]), 0, 1), undefined)
  assert.equal(words.find(Buffer.from('\u00e9'), 0, 2), undefined)
})
