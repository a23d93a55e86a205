import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { PageTokens } from './page-token.ts'

const purpose = { name: 'note', maxAgeMs: 1000 }

function tokensAt(nowMs = 0, secretByte = 1) {
  const clock = { nowMs }
  const secret = new Uint8Array(32).fill(secretByte)
  return { clock, tokens: new PageTokens({ secrets: () => [secret], nowMs: () => clock.nowMs, randomBytes }) }
}

test('a token is valid for its purpose and binding, in any process with the secret, in time', () => {
  const { tokens, clock } = tokensAt()
  const token = tokens.encrypt(purpose, 'a', { note: 'secret text' })
  assert.deepEqual(tokens.decrypt(purpose, 'a', token), { note: 'secret text' })
  assert.deepEqual(tokensAt().tokens.decrypt(purpose, 'a', token), { note: 'secret text' })
  assert.equal(Buffer.from(token, 'base64url').includes('secret'), false)
  assert.notEqual(tokens.encrypt(purpose, 'a', { note: 'secret text' }), token)

  assert.equal(tokens.decrypt(purpose, 'b', token), undefined)
  assert.equal(tokens.decrypt({ ...purpose, name: 'other' }, 'a', token), undefined)
  assert.equal(tokensAt(0, 2).tokens.decrypt(purpose, 'a', token), undefined)
  clock.nowMs = 1000
  assert.notEqual(tokens.decrypt(purpose, 'a', token), undefined)
  clock.nowMs = 1001
  assert.equal(tokens.decrypt(purpose, 'a', token), undefined)
})

test('any other token is rejected', () => {
  const { tokens } = tokensAt()
  const token = tokens.encrypt(purpose, 'a', { note: 'x' })
  for (const other of [undefined, null, 3, {}, '', 'x', token.slice(1), `${token}AAAA`, 'A'.repeat(20_000)]) {
    assert.equal(tokens.decrypt(purpose, 'a', other), undefined)
  }
  const bytes = Buffer.from(token, 'base64url')
  for (const index of bytes.keys()) {
    const changed = Buffer.from(bytes)
    changed.writeUInt8((bytes[index] ?? 0) ^ 1, index)
    assert.equal(tokens.decrypt(purpose, 'a', changed.toString('base64url')), undefined, `byte ${index}`)
  }
})

test('a short secret is rejected', () => {
  const options = { secrets: () => [new Uint8Array(31)], nowMs: () => 0, randomBytes }
  assert.throws(() => new PageTokens(options), /secret: has 31 bytes; at least 32/)
})
