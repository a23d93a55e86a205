import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { ShardedMap } from './stats.ts'

test('a sharded map is a map for any keys', () => {
  const keys = fc.array(fc.tuple(fc.string({ unit: 'binary', maxLength: 6 }), fc.nat()))
  fc.assert(
    fc.property(keys, fc.string(), (entries, other) => {
      const map = new Map(entries)
      const sharded = new ShardedMap<number>()
      for (const [key, value] of entries) sharded.set(key, value)
      for (const key of [...map.keys(), other, '__proto__']) assert.equal(sharded.get(key), map.get(key))
    }),
  )
})
