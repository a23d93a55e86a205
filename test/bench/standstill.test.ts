import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { GoalRow } from './bench-case.ts'
import { callWaitsMs, excuseLatencies, stepMs } from './standstill.ts'

test('a pause of a core delays every call that was due meanwhile', () => {
  assert.deepEqual(callWaitsMs([0, 2.5 * stepMs, 0]), [0, 2.5 * stepMs, 1.5 * stepMs, 0.5 * stepMs, 0, 0])
})

test('only a latency with a goal is excused, and only beyond half of the goal', () => {
  const row = (unit: string, goal: GoalRow['goal']): GoalRow => {
    return { what: 'p99', unit, figures: [30], goal, compared: '' }
  }
  const rows = [
    row('ms', { atMost: 20 }),
    row('ms', { atMost: 30 }),
    row('MiB', { atMost: 5 }),
    row('', { atMost: 0.5 }),
    row('ms', undefined),
  ]
  const judged = excuseLatencies({ rows, measurements: {}, notes: [] }, 12)
  assert.deepEqual(
    judged.rows.map(({ excuse }) => excuse !== undefined),
    [true, false, false, false, false],
  )
  assert.deepEqual(excuseLatencies({ rows, measurements: {}, notes: [] }, undefined).rows, rows)
})
