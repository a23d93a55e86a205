import assert from 'node:assert/strict'
import { test } from 'node:test'
import { BrokerStats, exposition, statEntries } from './broker-stats.ts'

test('sums include all routes, and routes beyond the limit share one entry', () => {
  const stats = new BrokerStats()
  for (let count = 0; count < 1000; count += 1) stats.route(`shop/route-${count}`).counters.pushes += 1
  assert.equal(stats.routes().length, 201)
  assert.equal(stats.route('overflow').counters.pushes, 800)
  assert.equal(new Map(statEntries(stats)).get('broker.pushes'), 1000)
})

test('names of routes cannot break a line of the exposition', () => {
  const stats = new BrokerStats()
  stats.route('a"b\\c\nd').counters.pushes = 2
  assert.match(exposition(stats), /^tollway_broker_pushes_total\{route="a\\"b\\\\c\\nd"\} 2$/m)
  for (const line of exposition(stats).trimEnd().split('\n')) assert.match(line, /^(# TYPE )?tollway_broker_/)
})
