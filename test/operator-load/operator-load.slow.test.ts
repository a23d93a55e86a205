import assert from 'node:assert/strict'
import { test } from 'node:test'
import { measureOperator } from './measure-operator.ts'

/**
 * The bounds are generous because other tests run at the same time; docs/operations/performance.md has
 * figures of a machine without them.
 */
const maxCpu = 0.5
const maxRssMiB = 400

test('20 pods and 5 consoles use only a part of a core of the operator, and all are served', async t => {
  const { cpu, rssMiB, answers, events } = await measureOperator(t, {
    ...{ domains: 10, rulesPerDomain: 100, changedRules: 10, pods: 20, consoles: 5 },
    ...{ settleMs: 1_000, measureMs: 4_000 },
  })
  assert.ok(cpu < maxCpu, `${cpu} of a core`)
  assert.ok(rssMiB < maxRssMiB, `${rssMiB} MiB`)
  assert.ok(answers > 10 && events > 10, `${answers} answers and ${events} events`)
})
