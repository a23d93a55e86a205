import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { StatusReport } from '../../status/status-report.ts'
import { countProblems } from './bundle.ts'

type Conditions = StatusReport['resources'][number]['conditions']

const resourceWith = (...conditions: readonly Partial<Conditions[number]>[]) =>
  ({ conditions }) as StatusReport['resources'][number]

test('resources are counted by the reason why they are not ready or are degraded', () => {
  const ready = { type: 'Ready', status: 'True', reason: 'Ready' } as const
  const resources = [
    resourceWith(ready),
    resourceWith(ready, { type: 'Degraded', status: 'True', reason: 'BackendUnavailable' }),
    resourceWith(ready, { type: 'Degraded', status: 'False', reason: 'AsExpected' }),
    resourceWith({ type: 'Ready', status: 'False', reason: 'Invalid' }),
    resourceWith(),
  ]
  const counted = countProblems({ resources, replicas: [], problems: [] } as unknown as StatusReport)
  assert.deepEqual(counted.notReady, { Invalid: 1, Unknown: 1 })
  assert.deepEqual(counted.degraded, { BackendUnavailable: 1 })
})
