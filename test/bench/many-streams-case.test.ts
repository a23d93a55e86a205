import assert from 'node:assert/strict'
import { test } from 'node:test'
import { growthMiB } from './many-streams-case.ts'

test('growth is the difference of the last fifth and the second fifth, for any single rounds', () => {
  const steady = [50, 80, 100, 100, 190, 100, 101, 100, 100, 100]
  assert.equal(growthMiB(steady), 0)
  assert.equal(growthMiB([10, 100, 110, 120, 130]), 30)
})
