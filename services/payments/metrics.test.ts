import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createMetrics } from './metrics.ts'

test('metrics are in the format of Prometheus, and readable by name', () => {
  const metrics = createMetrics()
  const count = metrics.counter('requests_total', 'Requests.')
  const time = metrics.histogram('request_seconds', 'Durations.')
  metrics.gauge('running', 'Now.', () => 3)
  metrics.gauge('waiting', 'Now.', () => [[{ outbox: 'mail' }, 2]])
  count({ route: '/a"\n' })
  count({ route: '/b' }, 2)
  for (const ms of [0.5, 1, 40, 20_000]) time({ route: '/a' }, ms)
  const text = metrics.expose()
  for (const line of [
    '# TYPE requests_total counter',
    'requests_total{route="/a\\"\\n"} 1',
    'requests_total{route="/b"} 2',
    'request_seconds_bucket{route="/a",le="0.001"} 2',
    'request_seconds_bucket{route="/a",le="0.05"} 3',
    'request_seconds_bucket{route="/a",le="10"} 3',
    'request_seconds_bucket{route="/a",le="+Inf"} 4',
    'request_seconds_sum{route="/a"} 20.0415',
    'request_seconds_count{route="/a"} 4',
    'running 3',
    'waiting{outbox="mail"} 2',
  ]) {
    assert.ok(text.includes(`${line}\n`), line)
  }
  const names = metrics.entries().map(([name]) => name)
  assert.deepEqual(names, [...names].sort())
})
