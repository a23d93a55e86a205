import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addressKey } from './address-key.ts'
import { createRateLimit } from './rate-limit.ts'

test('attempts of one key are limited, and allowed again over time', () => {
  let nowMs = 0
  const limit = createRateLimit(2, { nowMs: () => 0, monotonicMs: () => nowMs })
  const takes: [key: string, atMs: number, waitMs: number][] = [
    ['a', 0, 0],
    ['a', 0, 0],
    ['a', 0, 30_000],
    ['b', 0, 0],
    ['a', 29_999, 1],
    ['a', 30_000, 0],
    ['a', 30_000, 30_000],
    ['a', 1_000_000, 0],
    ['a', 1_000_000, 0],
    ['a', 1_000_000, 30_000],
  ]
  for (const [key, atMs, waitMs] of takes) {
    nowMs = atMs
    assert.equal(limit.take(key), waitMs, `${key} at ${atMs}`)
  }
})

test('a key beyond its limit stays limited, however many other keys ask', () => {
  let nowMs = 0
  const limit = createRateLimit(2, { nowMs: () => 0, monotonicMs: () => nowMs })
  assert.deepEqual([limit.take('a'), limit.take('a'), limit.take('a')], [0, 0, 30_000])
  for (let other = 0; other < 20_000; other += 1) limit.take(`other ${other}`)
  assert.ok(limit.take('a') >= 30_000)
  nowMs = 1_000_000
  assert.equal(limit.take('a'), 0)
})

test('few keys are rejected because of calls of others', () => {
  const limit = createRateLimit(60, { nowMs: () => 0, monotonicMs: () => 0 })
  let refused = 0
  for (let key = 0; key < 10_000; key += 1) refused += limit.take(`${key}`) > 0 ? 1 : 0
  assert.equal(refused, 0)
})

test('a blocked key is rejected for the time of the block', () => {
  let nowMs = 5_000
  const limit = createRateLimit(3, { nowMs: () => 0, monotonicMs: () => nowMs })
  assert.equal(limit.waitOf('a'), 0)
  limit.block('a', 7_000)
  assert.deepEqual([limit.waitOf('a'), limit.waitOf('b')], [7_000, 0])
  nowMs += 7_000
  assert.equal(limit.take('a'), 0)
})

test('an address has one key in any spelling, and a network of IPv6 has one', () => {
  const table: readonly (readonly [string, string])[] = [
    ['203.0.113.7', '203.0.113.7'],
    ['::ffff:203.0.113.7', '203.0.113.7'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:DB8:0001:2::9', '2001:db8:1:2::/64'],
    ['2001:db8::1', '2001:db8:0:0::/64'],
    ['::1', '0:0:0:0::/64'],
    ['fe80::1%eth0', 'fe80:0:0:0::/64'],
    ['unknown', 'unknown'],
    ['x'.repeat(100), 'x'.repeat(64)],
  ]
  for (const [address, key] of table) assert.equal(addressKey(address), key)
})
