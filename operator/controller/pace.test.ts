import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createPace } from './pace.ts'

test('a burst starts immediately, and later runs keep the rate', async () => {
  const pace = createPace(200, 10)
  const beginMs = performance.now()
  const startsMs = await Promise.all(
    Array.from({ length: 30 }, async () => {
      await pace.turn()
      return performance.now() - beginMs
    }),
  )
  assert.ok((startsMs[9] ?? 0) < 50, `the burst ended after ${startsMs[9]} ms`)
  // 20 starts beyond the burst, 5 ms apart.
  assert.ok((startsMs.at(-1) ?? 0) >= 95, `30 starts took ${startsMs.at(-1)} ms`)
})

test('a stop ends the waits', async () => {
  const pace = createPace(0.001, 0)
  const turn = pace.turn()
  pace.stop()
  assert.equal(await turn, false)
  assert.equal(await pace.turn(), false)
})

test('runs that cannot wait start as often as the rate allows', () => {
  let nowMs = 0
  const pace = createPace(10, 3, { nowMs: () => 0, monotonicMs: () => nowMs })
  const tries = (count: number) => Array.from({ length: count }, pace.tryTurn).filter(Boolean).length
  assert.equal(tries(10), 3)
  nowMs += 200
  assert.equal(tries(10), 2)
  nowMs += 60_000
  assert.equal(tries(10), 3)
})
