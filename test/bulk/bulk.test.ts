import assert from 'node:assert/strict'
import { test } from 'node:test'
import { missingKubeAssets } from '../support/kube-api-server.ts'
import { describeStep, playBulkChanges } from './bulk-change.ts'
import { quantile } from './probes.ts'

/** `node test/bulk/bulk.ts` is the long form, with 5,000. The bounds allow for a busy machine. */
const options = { count: 300, operators: 1, services: 3, idleSeconds: 0 }

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
      assert.ok(quantile(operator.healthMs, 0.99) < 1_000, figures)
      assert.ok(operator.maxRssMiB < 256, figures)
    }
  }
})
