import assert from 'node:assert/strict'
import { test } from 'node:test'
import { withTransitionTimes } from './conditions.ts'

const ready = (status: 'True' | 'False', message: string) => ({
  type: 'Ready',
  status,
  reason: 'Because',
  message,
})

test('the transition time of a condition is that of its last change of status', () => {
  const first = withTransitionTimes([], [ready('False', 'one')], 1, 1_000)
  const same = withTransitionTimes(first, [ready('False', 'two')], 2, 2_000)
  const changed = withTransitionTimes(same, [ready('True', 'three')], 3, 3_000)
  const times = [first, same, changed].map(([condition]) => condition?.lastTransitionTime)
  assert.deepEqual(times, [
    '1970-01-01T00:00:01.000Z',
    '1970-01-01T00:00:01.000Z',
    '1970-01-01T00:00:03.000Z',
  ])
  assert.deepEqual(same[0], {
    ...ready('False', 'two'),
    observedGeneration: 2,
    lastTransitionTime: '1970-01-01T00:00:01.000Z',
  })
})

test('conditions that are no longer derived are removed', () => {
  const old = withTransitionTimes([], [ready('True', 'one')], 1, 1_000)
  assert.deepEqual(withTransitionTimes(old, [], 1, 2_000), [])
})
