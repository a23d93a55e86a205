import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSlices } from './slices.ts'

test('long work lets other work run after each slice', async () => {
  let others = 0
  const other = setInterval(() => {
    others += 1
  }, 1)
  const slices = createSlices(5)
  // The deadline ends a test of slices that never yield, in which no timer of the test runs.
  const endMs = performance.now() + 20_000
  while (others < 3 && performance.now() < endMs) await slices.yieldIfDue()
  clearInterval(other)
  assert.equal(others, 3)
})

test('work that is shorter than a slice does not wait', () => {
  const slices = createSlices(60_000)
  assert.equal(slices.yieldIfDue(), undefined)
})
