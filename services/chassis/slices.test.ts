import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createSlices } from './slices.ts'

test('long work lets other work run after each slice', async () => {
  let others = 0
  const other = setInterval(() => {
    others += 1
  }, 1)
  const slices = createSlices(5)
  const endMs = performance.now() + 100
  while (performance.now() < endMs) await slices.yieldIfDue()
  clearInterval(other)
  assert.ok(others >= 3, `other work ran ${others} times`)
})

test('work that is shorter than a slice does not wait', () => {
  const slices = createSlices(60_000)
  assert.equal(slices.yieldIfDue(), undefined)
})
