import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBackoff } from './backoff.ts'

const waits = (backoff: { nextMs(): number }, count: number) =>
  Array.from({ length: count }, () => backoff.nextMs())

test('waits grow by the factor to the longest one, and begin anew after a success', () => {
  const backoff = createBackoff({ initialMs: 10, maxMs: 60, factor: 1.5, jitter: 0, random: () => 0 })
  assert.deepEqual(waits(backoff, 6), [10, 15, 22.5, 33.75, 50.625, 60])
  backoff.reset()
  assert.deepEqual(waits(backoff, 2), [10, 15])
})

test('no wait is longer than the longest, the first one included', () => {
  const backoff = createBackoff({ initialMs: 10, maxMs: 5, factor: 2, jitter: 0, random: () => 0 })
  assert.deepEqual(waits(backoff, 2), [5, 5])
})

test('chance takes away up to the share of it', () => {
  const draws = [0, 0.5, 0.999]
  const random = () => draws.shift() ?? 0
  const backoff = createBackoff({ initialMs: 100, maxMs: 100, factor: 1, jitter: 0.5, random })
  assert.deepEqual(waits(backoff, 3), [100, 75, 50.05])
})
