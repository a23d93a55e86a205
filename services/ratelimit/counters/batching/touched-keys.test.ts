import assert from 'node:assert/strict'
import { test } from 'node:test'
import { KeyHash, TouchedKeys } from './touched-keys.ts'

test('keys in use are remembered, and others are forgotten at the limit', () => {
  const keys = new TouchedKeys(10)
  keys.of('used').expirySentSeconds = 60
  keys.of('unused').expirySentSeconds = 60
  for (let index = 0; index < 100; index += 1) {
    keys.of(`other-${index}`)
    assert.equal(keys.of('used').expirySentSeconds, 60)
  }
  assert.equal(keys.of('unused').expirySentSeconds, 0)
})

test('a key is remembered until clear, and its windows are separate', () => {
  const keys = new TouchedKeys(10)
  keys.of('a_60').expirySentSeconds = 60
  assert.equal(keys.of('a_60').expirySentSeconds, 60)
  assert.equal(keys.of('a_120').expirySentSeconds, 0)
  keys.clear()
  assert.equal(keys.of('a_60').expirySentSeconds, 0)
})

test('each key keeps its own state while the table grows and generations change', () => {
  const keys = new TouchedKeys(40_000)
  const known = Array.from({ length: 20_000 }, (_, index) => keys.of(`key-${index}`))
  for (const [index, touched] of known.entries()) {
    touched.expirySentSeconds = 1 + index
    touched.incrementIndex = index % 7
  }
  for (const index of known.keys()) {
    const { expirySentSeconds, incrementIndex } = keys.of(`key-${index}`)
    assert.deepEqual([expirySentSeconds, incrementIndex], [1 + index, index % 7])
  }
})

test('a write goes to the key, not to its former slot', () => {
  const keys = new TouchedKeys(4)
  const held = keys.of('held')
  for (let index = 0; index < 10; index += 1) keys.of(`other-${index}`).expirySentSeconds = 30
  held.expirySentSeconds = 90
  assert.equal(keys.of('held').expirySentSeconds, 90)
  assert.equal(keys.of('other-9').expirySentSeconds, 30)
  keys.clear()
  held.expirySentSeconds = 120
  assert.equal(keys.of('held').expirySentSeconds, 120)
})

test('similar keys have different hashes, and each bit of a hash is set in half of them', () => {
  const hash = new KeyHash([1, 2])
  const seen = new Set<bigint>()
  const bits = new Array<number>(64).fill(0)
  const texts = Array.from({ length: 50_000 }, (_, index) => `rl_user_k${index}_1763769600`)
  texts.push('', 'a', 'b', 'aa', 'é', '\u0100', '\u0000', '\u0000\u0000')
  for (const text of texts) {
    hash.of(text)
    assert.notEqual(hash.low, 0)
    const whole = (BigInt(hash.high >>> 0) << 32n) | BigInt(hash.low >>> 0)
    seen.add(whole)
    for (const bit of bits.keys()) bits[bit] = (bits[bit] ?? 0) + Number((whole >> BigInt(bit)) & 1n)
  }
  assert.equal(seen.size, texts.length)
  for (const [bit, count] of bits.entries()) {
    const share = count / texts.length
    assert.ok(Math.abs(share - 0.5) < 0.02, `bit ${bit} is set in ${share}`)
  }
})
