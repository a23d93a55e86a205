import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { LatencyHistogram } from './comparison.ts'

test('a quantile is at most 5 % above the exact one, and never below it', () => {
  const durations = fc.array(fc.double({ min: 0.02, max: 100_000, noNaN: true }), { minLength: 1 })
  fc.assert(
    fc.property(durations, fc.constantFrom(0.5, 0.9, 0.99, 1), (all, share) => {
      const histogram = new LatencyHistogram()
      for (const ms of all) histogram.record(ms)
      const exact = all.toSorted((a, b) => a - b)[Math.ceil(share * all.length) - 1] ?? 0
      const found = histogram.quantile(share)
      assert.ok(found >= exact * 0.999_999 && found <= exact * 1.050_001, `${found} for ${exact}`)
    }),
  )
  assert.equal(new LatencyHistogram().quantile(0.99), 0)
})
