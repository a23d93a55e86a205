import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createBackoff } from './backoff.ts'

const waits = (backoff: { nextMs(): number }, count: number) =>
  Array.from({ length: count }, () => backoff.nextMs())

test('delays grow by the factor to the maximum, and start again after a reset', () => {
  const backoff = createBackoff({ initialMs: 10, maxMs: 60, factor: 1.5, jitter: 0, random: () => 0 })
  assert.deepEqual(waits(backoff, 6), [10, 15, 22.5, 33.75, 50.625, 60])
  backoff.reset()
  assert.deepEqual(waits(backoff, 2), [10, 15])
})

test('no delay exceeds the maximum, including the first one', () => {
  const backoff = createBackoff({ initialMs: 10, maxMs: 5, factor: 2, jitter: 0, random: () => 0 })
  assert.deepEqual(waits(backoff, 2), [5, 5])
})

test('jitter shortens a delay by up to its share', () => {
  const draws = [0, 0.5, 0.999]
  const random = () => draws.shift() ?? 0
  const backoff = createBackoff({ initialMs: 100, maxMs: 100, factor: 1, jitter: 0.5, random })
  assert.deepEqual(waits(backoff, 3), [100, 75, 50.05])
})
