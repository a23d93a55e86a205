import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { OverLimitCache } from './over-limit-cache.ts'

const halfMebibyte = 512 * 1024

test('a key is over until its window ends', () => {
  const cache = new OverLimitCache(1)
  assert.equal(cache.has('k_60', 60), false)
  cache.add('k_60', 120, 60)
  assert.equal(cache.has('k_60', 119), true)
  assert.equal(cache.has('k_60', 120), false)
  assert.equal(cache.has('k_60', 60), false, 'an expired key is removed')
  const { lookupCount, hitCount, missCount, expiredCount, entryCount } = cache.counts
  assert.deepEqual([lookupCount, hitCount, missCount, expiredCount, entryCount], [4, 1, 3, 1, 0])
})

test('a cache never exceeds its bytes, and keys in use stay', () => {
  const cache = new OverLimitCache(2 * halfMebibyte)
  cache.add('in use', 100, 1)
  for (let index = 0; index < 100_000; index++) {
    cache.add(`key ${index}`, 100, 1)
    assert.ok(cache.has('in use', 1))
  }
  // An entry takes more than 64 bytes, and one of this test less than 80.
  assert.ok(cache.counts.entryCount < (2 * halfMebibyte) / 64)
  assert.ok(cache.counts.entryCount > (2 * halfMebibyte) / 4 / 80)
  assert.ok(cache.counts.evacuateCount > 80_000)
  assert.equal(cache.has('key 0', 1), false)
})

test('the mean access time is that of the remaining entries', () => {
  const cache = new OverLimitCache(1)
  assert.equal(cache.counts.averageAccessTime, 0)
  cache.add('a', 120, 60)
  cache.add('b', 180, 80)
  assert.equal(cache.counts.averageAccessTime, 70)
  cache.has('a', 120)
  assert.deepEqual([cache.counts.entryCount, cache.counts.averageAccessTime], [1, 70])
  cache.has('b', 180)
  assert.equal(cache.counts.averageAccessTime, 0)
})

test('a key that is too long is not cached', () => {
  const cache = new OverLimitCache(halfMebibyte)
  cache.add('x'.repeat(65_536), 100, 1)
  assert.equal(cache.counts.entryCount, 0)
})

test('a key that was not added is never reported, in any order of operations', () => {
  const step = fc.record({ key: fc.nat(5), at: fc.nat(20), add: fc.boolean() })
  fc.assert(
    fc.property(fc.array(step), steps => {
      const cache = new OverLimitCache(halfMebibyte)
      const model = new Map<string, number>()
      for (const { key, at, add } of steps) {
        if (add) {
          cache.add(`${key}`, at, 0)
          model.set(`${key}`, at)
        } else {
          const expected = at < (model.get(`${key}`) ?? 0)
          assert.equal(cache.has(`${key}`, at), expected)
          if (!expected) model.delete(`${key}`)
        }
      }
      assert.ok(cache.counts.entryCount <= 6)
    }),
  )
})
