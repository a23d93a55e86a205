import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingKubeAssets } from '../support/kube-api-server.ts'
import { describeStep, playBulkChanges } from './bulk-change.ts'

/**
 * `node test/bulk/bulk.ts` is the long form, with 5,000, which also measures how long `/healthz` takes. That
 * depends on what else the machine does, so this test asserts the memory and generous times only.
 */
const options = { count: 200, operators: 1, services: 3, idleSeconds: 0 }

test('a bulk change neither stops an operator nor loses a call', {
  skip: missingKubeAssets(),
  timeout: 110_000,
}, async t => {
  const { steps } = await playBulkChanges(t, { ...options, say: text => t.diagnostic(text) })
  assert.equal(steps.length, 4)
  for (const step of steps) {
    const figures = describeStep(step)
    assert.deepEqual(
      step.loads.flatMap(load => load.failures),
      [],
      figures,
    )
    assert.ok(step.enforcedSeconds < 15, figures)
    assert.ok(step.writtenSeconds < 20, figures)
    for (const operator of step.operators) {
      assert.ok(operator.maxRssMiB < 256, figures)
    }
  }
})
