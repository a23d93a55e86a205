import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { hashText, startHash } from './content-hash.ts'
import { SpaceSaving } from './space-saving.ts'

const numRuns = Number(process.env['FC_RUNS'] ?? 300)

test('a count is never too low, too high by its error at most, and no frequent key is missing', () => {
  const keys = fc.array(fc.tuple(fc.nat({ max: 30 }), fc.integer({ min: 1, max: 5 })), { maxLength: 400 })
  fc.assert(
    fc.property(keys, fc.integer({ min: 1, max: 12 }), (added, capacity) => {
      const sketch = new SpaceSaving<number>(capacity)
      const exact = new Map<number, number>()
      for (const [key, hits] of added) {
        startHash()
        hashText(`${key}`)
        sketch.add(hits, key)
        exact.set(key, (exact.get(key) ?? 0) + hits)
      }
      const top = sketch.top()
      assert.ok(top.length <= capacity)
      for (const { item, count, error } of top) {
        const is = exact.get(item) ?? 0
        assert.ok(count >= is && count - error <= is, `${item}: ${is} is not in ${count} - ${error}`)
      }
      const shown = new Set(top.map(({ item }) => item))
      for (const [key, count] of exact) assert.ok(shown.has(key) || count <= sketch.missingAtMost())
      assert.deepEqual(
        top.map(({ count }) => count),
        top.map(({ count }) => count).sort((a, b) => b - a),
      )
    }),
    { numRuns },
  )
})
