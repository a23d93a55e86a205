import assert from 'node:assert/strict'
import { describe, test } from 'node:test'
import { requireProgram } from '../support/require-server.ts'
import { cases } from './cases.ts'
import { runFault } from './run-fault.ts'

const isLong = process.env['SOAK'] === '1'
const seed = Number(process.env['FAULT_SEED'] ?? (Date.now() % 2 ** 31) + 1)

describe(`faults of streams, FAULT_SEED=${seed}`, () => {
  for (const one of cases) {
    test(`${one.name}: ${one.title}`, async t => {
      for (const program of one.needs) if (requireProgram(t, program) === false) return
      const { violations } = await runFault(one, { seed, isLong })
      assert.deepEqual(violations, [])
    })
  }
})
