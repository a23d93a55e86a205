import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStats } from './stats.ts'

test('a name has one counter, made at the first call', () => {
  const stats = createStats()
  stats.counter('a').value += 2
  stats.counter('a').value += 1
  assert.deepEqual(stats.entries(), [{ name: 'a', kind: 'counter', value: 3 }])
})

test('entries are sorted by name, and a gauge is read when it is asked for', () => {
  const stats = createStats()
  let connections = 1
  stats.counter('c')
  stats.gauge('b', () => connections)
  stats.counter('a')
  connections = 5
  assert.deepEqual(stats.entries(), [
    { name: 'a', kind: 'counter', value: 0 },
    { name: 'b', kind: 'gauge', value: 5 },
    { name: 'c', kind: 'counter', value: 0 },
  ])
})
