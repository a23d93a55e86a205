import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStats } from './stats.ts'

test('a name has one counter, created at the first call', () => {
  const stats = createStats()
  stats.counter('a').value += 2
  stats.counter('a').value += 1
  assert.deepEqual(stats.entries(), [{ name: 'a', kind: 'counter', value: 3 }])
})

test('entries are sorted by name, and a gauge is read on demand', () => {
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

test('sinks find each series at its index', () => {
  const stats = createStats()
  const { counters, histograms } = stats
  stats.counter('b').value += 1
  stats.counter('a')
  stats.counter('b').value += 1
  stats.gauge('g', () => 1)
  stats.gauge('g', () => 2)
  assert.equal(stats.histogram('h'), stats.histogram('h'))
  assert.equal(counters.length, 2)
  assert.deepEqual(
    [counters.at(0), counters.at(1), counters.at(2)],
    [{ name: 'b', value: 2 }, { name: 'a', value: 0 }, undefined],
  )
  assert.deepEqual(
    stats.gauges.map(({ read }) => read()),
    [2],
  )
  assert.deepEqual(
    histograms.map(({ name }) => name),
    ['h'],
  )
})

test('entries are counters and gauges, without durations', () => {
  const stats = createStats()
  stats.histogram('h').record(1)
  assert.deepEqual(stats.entries(), [])
})

test('the counters of a family are fields of an object, and regular counters for readers', () => {
  const stats = createStats()
  const zeros = () => ({ hits: 0, misses: 0 })
  const family = stats.family('f.', { hits: 'all_hits', misses: 'all_misses' }, zeros)
  stats.counter('first')
  const counts = family('a.b')
  stats.counter('last')
  counts.hits += 2
  assert.equal(family('a.b'), counts)
  stats.counter('f.a.b.all_hits').value += 1
  assert.equal(counts.hits, 3)
  assert.deepEqual(
    [...stats.counters].map(({ name, value }) => `${name} ${value}`),
    ['first 0', 'f.a.b.all_hits 3', 'f.a.b.all_misses 0', 'last 0'],
  )
  assert.deepEqual(
    stats.entries().map(({ name }) => name),
    ['f.a.b.all_hits', 'f.a.b.all_misses', 'first', 'last'],
  )
})
