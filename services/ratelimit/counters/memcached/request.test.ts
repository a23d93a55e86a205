import assert from 'node:assert/strict'
import { test } from 'node:test'
import { toExpiry } from './request.ts'

test('an expiry is sent as seconds up to 30 days, and as a time beyond', () => {
  const day = 86_400
  const nowMs = 1_700_000_000_400
  const table: readonly [number, number][] = [
    [1, 2],
    [60, 61],
    [30 * day - 1, 30 * day],
    [30 * day, 1_700_000_001 + 30 * day + 1],
    [365 * day, 1_700_000_001 + 365 * day + 1],
    [100 * 365 * day, 2 ** 31 - 1],
  ]
  for (const [seconds, expiry] of table) assert.equal(toExpiry(seconds, nowMs), expiry, String(seconds))
})
