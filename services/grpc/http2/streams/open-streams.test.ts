import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { OpenStreams } from './open-streams.ts'
import type { Stream } from './stream.ts'

const streamOf = (id: number) => ({ id }) as Stream

test('streams that stay open are found after any number of later ones', () => {
  const streams = new OpenStreams()
  streams.add(streamOf(1))
  for (let id = 3; id < 20_001; id += 2) {
    streams.add(streamOf(id))
    if (id % 5001 !== 0) streams.delete(id)
  }
  assert.deepEqual(
    streams.all().map(({ id }) => id),
    [1, 5001, 15_003],
  )
  assert.deepEqual(
    [streams.get(1)?.id, streams.get(2), streams.get(3), streams.size],
    [1, undefined, undefined, 3],
  )
})

test('is a map from ascending numbers', () => {
  const step = fc.record({ skipped: fc.nat(3), ended: fc.nat(5000) })
  fc.assert(
    fc.property(fc.array(step, { maxLength: 3000 }), steps => {
      const streams = new OpenStreams()
      const expected = new Map<number, Stream>()
      let id = 1
      for (const { skipped, ended } of steps) {
        id += 2 + 2 * skipped
        const stream = streamOf(id)
        streams.add(stream)
        expected.set(id, stream)
        const other = 1 + 2 * (ended % id)
        streams.delete(other)
        expected.delete(other)
        assert.equal(streams.size, expected.size)
        assert.equal(streams.get(other), undefined)
      }
      assert.deepEqual(streams.all(), [...expected.values()])
    }),
    { numRuns: 20 },
  )
})
