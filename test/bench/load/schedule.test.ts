import assert from 'node:assert/strict'
import { test } from 'node:test'
import { evenSchedule, randomSchedule } from './schedule.ts'

test('an even schedule has calls at equal intervals on the connections in turn', () => {
  const { dueMs, connections } = evenSchedule(1000, 4, 3)
  assert.deepEqual([...dueMs], [0, 1, 2, 3])
  assert.deepEqual([...connections], [0, 1, 2, 0])
})

test('random arrivals are exponentially distributed, and use every connection equally', () => {
  const { dueMs, connections } = randomSchedule(1000, 20_000, 100, 1)
  const gaps = dueMs.map((ms, call) => ms - (dueMs[call - 1] ?? 0))
  const mean = gaps.reduce((sum, gap) => sum + gap, 0) / gaps.length
  const variance = gaps.reduce((sum, gap) => sum + (gap - mean) ** 2, 0) / gaps.length
  assert.ok(gaps.every(gap => gap >= 0))
  assert.ok(Math.abs(mean - 1) < 0.05, `a mean gap of ${mean} ms`)
  assert.ok(Math.abs(variance - 1) < 0.1, `a variance of ${variance}`)
  const perConnection = new Map<number, number>()
  for (const connection of connections) {
    perConnection.set(connection, (perConnection.get(connection) ?? 0) + 1)
  }
  assert.equal(perConnection.size, 100)
  assert.ok([...perConnection.values()].every(calls => calls > 100 && calls < 300))
})

test('a seed gives the same schedule again, and another seed a different one', () => {
  assert.deepEqual(randomSchedule(1000, 100, 10, 7), randomSchedule(1000, 100, 10, 7))
  assert.notDeepEqual(randomSchedule(1000, 100, 10, 7), randomSchedule(1000, 100, 10, 8))
})
