import assert from 'node:assert/strict'
import { test } from 'node:test'
import { derivedId, hashApiKey, isId, newApiKey, newId, newPublicKey } from './ids.ts'

const ones = (count: number) => new Uint8Array(count).fill(0xff)

test('an id is a UUID of version 7 that sorts by time', () => {
  const id = newId(Date.UTC(2022, 1, 22, 19, 22, 22), ones)
  assert.equal(id, '017f22e2-79b0-7fff-bfff-ffffffffffff')
  assert.ok(isId(id))
  assert.ok(newId(1, ones) < newId(2, count => new Uint8Array(count)))
})

test('other texts are not ids', () => {
  for (const text of [
    '',
    '560fd96b7973ff3d2362a78c',
    "017f22e2-79b0-7fff-bfff-ffffffffffff'",
    'X'.repeat(36),
  ]) {
    assert.equal(isId(text), false, text)
  }
})

test('a derived id is the same for the same name of the same kind', () => {
  const id = derivedId('dispute', 'd1')
  assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/)
  assert.equal(derivedId('dispute', 'd1'), id)
  assert.notEqual(derivedId('fraud', 'd1'), id)
  assert.notEqual(derivedId('dispute', 'd2'), id)
})

test('public keys and API keys are random, and an API key is stored as a hash', () => {
  assert.equal(newPublicKey(ones), 'ffffffff-ffff-4fff-bfff-ffffffffffff')
  const key = newApiKey(ones)
  assert.match(key, /^tollway_[\w-]{43}$/)
  assert.match(hashApiKey(key), /^[0-9a-f]{64}$/)
  assert.notEqual(hashApiKey(key), hashApiKey(`${key} `))
})
