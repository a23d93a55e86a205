import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createTouchedKeys } from './touched-keys.ts'

test('keys in use are remembered, and others are forgotten after so many', () => {
  const keys = createTouchedKeys(10)
  const used = keys.of('used')
  const unused = keys.of('unused')
  for (let index = 0; index < 100; index += 1) {
    keys.of(`other-${index}`)
    assert.equal(keys.of('used'), used)
  }
  assert.notEqual(keys.of('unused'), unused)
})

test('a key is known until all are forgotten, and keys of two windows are two', () => {
  const keys = createTouchedKeys(10)
  keys.of('a_60').expirySentSeconds = 60
  assert.equal(keys.of('a_60').expirySentSeconds, 60)
  assert.equal(keys.of('a_120').expirySentSeconds, 0)
  keys.clear()
  assert.equal(keys.of('a_60').expirySentSeconds, 0)
})
