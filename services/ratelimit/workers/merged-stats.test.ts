import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createStats, type Stats } from '../stats/stats.ts'
import { MergedStats } from './merged-stats.ts'
import { createSeriesDeltas } from './series-deltas.ts'

/** Starts a worker in this process. Its messages are encoded as JSON, as in the channel. */
function startWorker(into: ReturnType<MergedStats['open']>) {
  const stats = createStats()
  const pass = createSeriesDeltas(stats)
  return {
    stats,
    report: () => into.take(JSON.parse(JSON.stringify([...pass()]))),
    close: () => into.close(),
  }
}

const values = (stats: Stats) => Object.fromEntries(stats.entries().map(({ name, value }) => [name, value]))

const action = fc.record({
  worker: fc.nat(2),
  name: fc.constantFrom('a', 'b', 'c'),
  does: fc.constantFrom('count', 'record', 'report', 'crash'),
  amount: fc.nat(5000),
})

test('sums are exact in any order of reports; a crash loses only unreported changes', () => {
  fc.assert(
    fc.property(fc.array(action, { maxLength: 60 }), actions => {
      const sum = createStats()
      const into = new MergedStats(sum)
      const workers = Array.from({ length: 3 }, () => ({
        ...startWorker(into.open()),
        untold: [] as (() => void)[],
      }))
      const expected = createStats()
      for (const { worker: index, name, does, amount } of actions) {
        const worker = workers[index]
        assert.ok(worker)
        const both = (change: (stats: Stats) => void) => {
          change(worker.stats)
          worker.untold.push(() => change(expected))
        }
        if (does === 'count') {
          both(stats => {
            stats.counter(name).value += amount
          })
        }
        if (does === 'record') both(stats => stats.histogram(name).record(amount / 10))
        if (does === 'report') {
          worker.report()
          for (const change of worker.untold.splice(0)) change()
        }
        if (does === 'crash') {
          worker.close()
          workers[index] = { ...startWorker(into.open()), untold: [] }
        }
      }
      assert.deepEqual(values(sum), values(expected))
      for (const { name, counts, count, sumMs } of expected.histograms) {
        const found = sum.histograms.find(histogram => histogram.name === name)
        assert.deepEqual(found?.counts, counts)
        assert.equal(found?.count, count)
        assert.ok(Math.abs((found?.sumMs ?? 0) - sumMs) < 1e-6)
      }
    }),
  )
})

test('a counter is reported before its first hit, and later only its changes', () => {
  const stats = createStats()
  const pass = createSeriesDeltas(stats)
  stats.counter('never')
  stats.gauge('level', () => 7)
  stats.histogram('times')
  assert.deepEqual(
    [...pass()],
    [
      { kind: 'counter', index: 0, name: 'never', added: 0 },
      { kind: 'gauge', index: 0, name: 'level', value: 7 },
      { kind: 'durations', index: 0, name: 'times', counts: [], sumMs: 0 },
    ],
  )
  assert.deepEqual([...pass()], [])
  stats.counter('never').value += 2
  assert.deepEqual([...pass()], [{ kind: 'counter', index: 0, added: 2 }])
})

test('gauges are sums over the running processes', () => {
  const sum = createStats()
  const into = new MergedStats(sum)
  const workers = [3, 4].map(level => {
    const worker = startWorker(into.open())
    worker.stats.gauge('connections', () => level)
    worker.report()
    return worker
  })
  assert.deepEqual(values(sum), { connections: 7 })
  workers[0]?.close()
  assert.deepEqual(values(sum), { connections: 4 })
})

test('beyond the bound the counters of limits are summed, and others are not', () => {
  const sum = createStats()
  const worker = startWorker(new MergedStats(sum, 2).open())
  for (const name of ['a.total_hits', 'a.near_limit', 'b.total_hits', 'c.d.total_hits']) {
    worker.stats.counter(`ratelimit.service.rate_limit.${name}`).value = 1
  }
  worker.stats.counter('ratelimit.service.config_load_success').value = 1
  worker.report()
  worker.stats.counter('ratelimit.service.rate_limit.c.d.total_hits').value += 1
  worker.report()
  assert.deepEqual(values(sum), {
    'ratelimit.service.config_load_success': 1,
    'ratelimit.service.rate_limit.a.near_limit': 1,
    'ratelimit.service.rate_limit.a.total_hits': 1,
    'ratelimit.service.rate_limit.overflow.total_hits': 3,
  })
})
