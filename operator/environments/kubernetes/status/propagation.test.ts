import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { ResourceStatus } from '../../../status/resource-status.ts'
import { createPropagationWatch } from './propagation.ts'

test('the time from a change to its enforcement is reported once, except for older changes', () => {
  let nowMs = 0
  const told: number[] = []
  const look = createPropagationWatch({ nowMs: () => 0, monotonicMs: () => nowMs }, seconds =>
    told.push(seconds),
  )
  const at = (ms: number, ...statuses: ResourceStatus[]) => {
    nowMs = ms
    look(statuses)
  }
  at(0, statusOf('a', 1, false))
  at(1_000, statusOf('a', 1, true))
  assert.deepEqual(told, [])
  at(2_000, statusOf('a', 2, false), statusOf('b', 1, false))
  at(2_030, statusOf('a', 2, true), statusOf('b', 1, false))
  at(2_050, statusOf('a', 2, true), statusOf('b', 1, true))
  at(9_000, statusOf('a', 2, false))
  at(9_500, statusOf('a', 2, true))
  assert.deepEqual(told, [0.03, 0.05])
})

function statusOf(uid: string, observedGeneration: number, ready: boolean): ResourceStatus {
  const condition = {
    type: 'Ready',
    status: ready ? 'True' : 'False',
    reason: '',
    message: '',
    observedGeneration,
    lastTransitionTime: '',
  } as const
  return {
    kind: 'RateLimitConfig',
    namespace: 'shop',
    name: uid,
    uid,
    origin: '',
    observedGeneration,
    subject: '',
    counts: {},
    enforced: '',
    problems: [],
    conditions: [condition],
  }
}
