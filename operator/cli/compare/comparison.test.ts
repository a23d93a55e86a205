import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Comparison } from './comparison.ts'

test('a reported latency is at most 5 % above the exact one, and never below it', () => {
  const durations = fc.array(fc.double({ min: 0.02, max: 100_000, noNaN: true }), { minLength: 1 })
  fc.assert(
    fc.property(durations, all => {
      const comparison = new Comparison({ remaining: false, reset: false })
      for (const tookMs of all) comparison.addDropped({ answer: new Uint8Array(), tookMs })
      const { p50, p99, p999, max } = comparison.report().reference.latencyMs
      const sorted = all.toSorted((a, b) => a - b)
      for (const [share, found] of [
        [0.5, p50],
        [0.99, p99],
        [0.999, p999],
        [1, max],
      ] as const) {
        const exact = sorted[Math.ceil(share * all.length) - 1] ?? 0
        assert.ok(found >= exact - 0.006 && found <= exact * 1.05 + 0.006, `${found} for ${exact}`)
      }
      assert.ok(Math.abs(max - (sorted.at(-1) ?? 0)) < 0.006)
    }),
  )
})

test('a service without calls has latencies of 0', () => {
  const { latencyMs } = new Comparison({ remaining: false, reset: false }).report().candidate
  assert.deepEqual(latencyMs, { p50: 0, p99: 0, p999: 0, max: 0 })
})
