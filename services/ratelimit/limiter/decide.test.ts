import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { decide, isOverall, nearLimitThreshold, shadowedHits } from './decide.ts'

const table = `
limit hits after | over  remaining over_hits near within
10    1    1     | ok    9         0         0    1
10    1    8     | ok    2         0         0    1
10    1    9     | ok    1         0         1    1
10    1    10    | ok    0         0         1    1
10    1    11    | over  0         1         0    0
10    5    10    | ok    0         0         2    5
10    5    12    | over  0         2         2    0
10    20   20    | over  0         10        2    0
10    5    30    | over  0         5         0    0
10    0    10    | ok    0         0         0    0
10    0    11    | over  0         0         0    0
0     1    1     | over  0         1         0    0
`

test('a decision and its statistics', () => {
  for (const line of table.trim().split('\n').slice(1)) {
    const [limit = 0, hits = 0, after = 0] = line.split('|')[0]?.trim().split(/\s+/).map(Number) ?? []
    const [over, ...counts] = line.split('|')[1]?.trim().split(/\s+/) ?? []
    const [remaining, overLimitHits, nearLimitHits, withinLimitHits] = counts.map(Number)
    assert.deepEqual(
      decide(limit, nearLimitThreshold(limit, 0.8), hits, after),
      { over: over === 'over', remaining, overLimitHits, nearLimitHits, withinLimitHits },
      line,
    )
  }
})

test('every hit is within the limit or over it, except in calls that cross the limit', () => {
  const counts = fc.record({
    limit: fc.integer({ min: 0, max: 0xffffffff }),
    before: fc.nat(),
    hits: fc.nat(),
  })
  fc.assert(
    fc.property(counts, ({ limit, before, hits }) => {
      const outcome = decide(limit, nearLimitThreshold(limit, 0.8), hits, before + hits)
      assert.equal(outcome.over, before + hits > limit)
      assert.ok(outcome.overLimitHits + outcome.withinLimitHits <= hits)
      assert.ok(outcome.nearLimitHits >= 0 && outcome.nearLimitHits <= hits)
      assert.equal(outcome.remaining, Math.max(0, limit - before - hits))
    }),
  )
})

test('the near limit threshold is calculated with 32-bit floats', () => {
  assert.equal(nearLimitThreshold(10, 0.8), 8)
  assert.equal(nearLimitThreshold(5, 0.8), 4)
  assert.equal(nearLimitThreshold(0, 0.8), 0)
  assert.equal(nearLimitThreshold(4294967295, 1), 4294967296)
})

test('a shadow rule counts the hits that it admitted', () => {
  assert.equal(shadowedHits(10, 5, 12), 2)
  assert.equal(shadowedHits(10, 5, 30), 5)
})

test('one descriptor over its limit is enough, but all quotas must be over', () => {
  const cases: [string, boolean][] = [
    ['', false],
    ['ok', false],
    ['ok over', true],
    ['quota:over', true],
    ['quota:over quota:ok', false],
    ['quota:over ok', true],
    ['quota:ok over', true],
  ]
  for (const [text, expected] of cases) {
    const words = text.split(' ')
    const count = (pattern: RegExp) => words.filter(word => pattern.test(word)).length
    const votes = { over: count(/^over/), quotas: count(/^quota:/), quotasOver: count(/^quota:over/) }
    assert.equal(isOverall(votes), expected, text)
  }
})
