import assert from 'node:assert/strict'
import { test } from 'node:test'
import { createStats } from '../stats.ts'
import { createLogSink } from './log-sink.ts'

function open() {
  const stats = createStats()
  const lines: string[] = []
  const sink = createLogSink(stats, line => lines.push(line))
  const flush = () => {
    lines.length = 0
    sink.flush()
    return lines.join('')
  }
  return { stats, flush }
}

test('a counter is written as its increase since the last flush, if any', () => {
  const { stats, flush } = open()
  const calls = stats.counter('calls')
  assert.equal(flush(), '')
  calls.value += 3
  assert.equal(flush(), '{"name":"calls","type":"counter","value":3}\n')
  assert.equal(flush(), '')
  calls.value += 2
  stats.counter('later').value += 1
  const expected = [
    '{"name":"calls","type":"counter","value":2}',
    '{"name":"later","type":"counter","value":1}',
    '',
  ]
  assert.equal(flush(), expected.join('\n'))
})

test('a gauge is written as its value, if it has changed', () => {
  const { stats, flush } = open()
  let connections = 2
  stats.gauge('connections', () => connections)
  assert.equal(flush(), '{"name":"connections","type":"gauge","value":2}\n')
  assert.equal(flush(), '')
  connections = 0
  assert.equal(flush(), '{"name":"connections","type":"gauge","value":0}\n')
})

test('a name from a caller stays on one line', () => {
  const { stats, flush } = open()
  stats.counter('a\nb').value += 1
  assert.equal(flush(), '{"name":"a\\nb","type":"counter","value":1}\n')
})

test('a timer is written as the durations since the last flush', () => {
  const { stats, flush } = open()
  const time = stats.histogram('time')
  for (const ms of [1, 1, 1, 9]) time.record(ms)
  assert.equal(flush(), '{"name":"time","type":"timer","count":4,"p50_ms":1,"p99_ms":9.088}\n')
  assert.equal(flush(), '')
})
