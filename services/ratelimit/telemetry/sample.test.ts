import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { Sample } from './sample.ts'

function offerAll(sample: Sample<number>, count: number): void {
  for (let item = 0; item < count; item++) {
    const place = sample.offer()
    if (place !== undefined) sample.put(place, item)
  }
}

test('a sample has different items in their order, and counts the others', () => {
  const sizes = fc.record({
    capacity: fc.integer({ min: 1, max: 20 }),
    offered: fc.integer({ min: 0, max: 200 }),
    count: fc.integer({ min: 0, max: 30 }),
    numbers: fc.infiniteStream(fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true })),
  })
  fc.assert(
    fc.property(sizes, ({ capacity, offered, count, numbers }) => {
      const sample = new Sample<number>(capacity, () => numbers.next().value)
      for (let round = 0; round < 2; round++) {
        offerAll(sample, offered)
        const { items, skipped } = sample.take(count)
        assert.equal(items.length, Math.min(capacity, offered, count))
        assert.equal(items.length + skipped, offered)
        assert.deepEqual(
          items,
          [...new Set(items)].sort((a, b) => a - b),
        )
      }
    }),
  )
})

test('each item has the same chance, also when only a part of the sample is taken', () => {
  // A linear congruential generator, so that the test has the same numbers in each run.
  let state = 1
  const random = () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    return state / 2 ** 32
  }
  const offered = 40
  const rounds = 20_000
  const taken = new Array<number>(offered).fill(0)
  const sample = new Sample<number>(10, random)
  for (let round = 0; round < rounds; round++) {
    offerAll(sample, offered)
    for (const item of sample.take(4).items) taken[item] = (taken[item] ?? 0) + 1
  }
  const expected = (rounds * 4) / offered
  for (const [item, count] of taken.entries())
    assert.ok(Math.abs(count - expected) < expected * 0.1, `item ${item}: ${count}, expected ${expected}`)
})
