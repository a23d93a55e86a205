import assert from 'node:assert/strict'
import { test } from 'node:test'
import { addressKey, createRateLimit, maxKeys } from './rate-limit.ts'

test('tries of one key are limited, and come back with time', () => {
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

test('so many keys are remembered, and those that asked last are', () => {
  const limit = createRateLimit(1, { nowMs: () => 0, monotonicMs: () => 0 })
  assert.equal(limit.take('first'), 0)
  for (let key = 1; key < maxKeys; key += 1) limit.take(`${key}`)
  assert.ok(limit.take('first') > 0)
  limit.take('one more')
  assert.ok(limit.take('first') > 0)
  assert.equal(limit.take('1'), 0)
})

test('an address is limited as who has it', () => {
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
