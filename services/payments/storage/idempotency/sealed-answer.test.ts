import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { canProtectSecret, openAnswer, requestFingerprint, sealAnswer } from './sealed-answer.ts'

test('a key protects a secret if it is a UUID of version 4 or has at least 128 random bits', () => {
  const table: readonly [string, boolean][] = [
    ['d41a9c07b5e83f6210cd47a98be5f013', true],
    ['D41A9C07-B5E83F62-10CD47A9-8BE5F013', true],
    ['d41a9c07b5e83f6210cd47a98be5f01', false],
    ['kJ3nQ-x8Zt_0aVbYw7Lm2g', true],
    ['kJ3nQ-x8Zt_0aVbYw7Lm', false],
    ['0198a7b0-6f3c-4d21-9c07-b5e83f6210cd', true],
    ['0198a7b0-6f3c-7d21-9c07-b5e83f6210cd', false],
    ['0198a7b0-6f3c-1d21-9c07-b5e83f6210cd', false],
    ['11111111-1111-4111-9111-111111111111', false],
    ['184027365910283746501928374650192837465', true],
    ['18402736591028374650192837465019283', false],
    ['aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa', false],
    ['order-1', false],
    ['', false],
  ]
  for (const [key, strong] of table) assert.equal(canProtectSecret(key), strong, key)
})

test('an answer opens with its own key and context only', () => {
  const body = Buffer.from('{"key":"secret"}')
  const sealed = sealAnswer('key', 'app:1', body, randomBytes)
  assert.deepEqual(openAnswer('key', 'app:1', sealed), body)
  assert.ok(!sealed.includes('secret'))
  assert.throws(() => openAnswer('other', 'app:1', sealed))
  assert.throws(() => openAnswer('key', 'app:2', sealed))
  for (let at = 0; at < sealed.length; at += 1) {
    const changed = Buffer.from(sealed)
    changed.writeUInt8(changed.readUInt8(at) ^ 1, at)
    assert.throws(() => openAnswer('key', 'app:1', changed), `byte ${at}`)
  }
})

test('a fingerprint depends on the key and all parts', () => {
  const parts = ['POST', '/x', '{}']
  const same = requestFingerprint('key', parts)
  assert.equal(requestFingerprint('key', parts), same)
  for (const other of [
    ['POST', '/x{}'],
    ['POST/x', '{}', ''],
    ['POST', '/x', '{} '],
  ]) {
    assert.notEqual(requestFingerprint('key', other), same)
  }
  assert.notEqual(requestFingerprint('other', parts), same)
})
