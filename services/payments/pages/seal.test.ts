import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { test } from 'node:test'
import { createSeal, type Purpose } from './seal.ts'

const purpose: Purpose<{ readonly note: string }> = { name: 'note', maxAgeMs: 1000 }

function sealAt(nowMs = 0, secretByte = 1) {
  const clock = { nowMs }
  const secret = new Uint8Array(32).fill(secretByte)
  return { clock, seal: createSeal({ secrets: () => [secret], nowMs: () => clock.nowMs, randomBytes }) }
}

test('a sealed value opens for its purpose and binding, in any process with the secret, in time', () => {
  const { seal, clock } = sealAt()
  const sealed = seal.close(purpose, 'a', { note: 'secret text' })
  assert.deepEqual(seal.open(purpose, 'a', sealed), { note: 'secret text' })
  assert.deepEqual(sealAt().seal.open(purpose, 'a', sealed), { note: 'secret text' })
  assert.equal(Buffer.from(sealed, 'base64url').includes('secret'), false)
  assert.notEqual(seal.close(purpose, 'a', { note: 'secret text' }), sealed)

  assert.equal(seal.open(purpose, 'b', sealed), undefined)
  assert.equal(seal.open({ ...purpose, name: 'other' }, 'a', sealed), undefined)
  assert.equal(sealAt(0, 2).seal.open(purpose, 'a', sealed), undefined)
  clock.nowMs = 1000
  assert.notEqual(seal.open(purpose, 'a', sealed), undefined)
  clock.nowMs = 1001
  assert.equal(seal.open(purpose, 'a', sealed), undefined)
})

test('any other value does not open', () => {
  const { seal } = sealAt()
  const sealed = seal.close(purpose, 'a', { note: 'x' })
  for (const other of [
    undefined,
    null,
    3,
    {},
    '',
    'x',
    sealed.slice(1),
    `${sealed}AAAA`,
    'A'.repeat(20_000),
  ]) {
    assert.equal(seal.open(purpose, 'a', other), undefined)
  }
  const bytes = Buffer.from(sealed, 'base64url')
  for (const index of bytes.keys()) {
    const changed = Buffer.from(bytes)
    changed.writeUInt8((bytes[index] ?? 0) ^ 1, index)
    assert.equal(seal.open(purpose, 'a', changed.toString('base64url')), undefined, `byte ${index}`)
  }
})

test('a short secret is rejected', () => {
  const options = { secrets: () => [new Uint8Array(31)], nowMs: () => 0, randomBytes }
  assert.throws(() => createSeal(options), /secret: has 31 bytes; at least 32/)
})
