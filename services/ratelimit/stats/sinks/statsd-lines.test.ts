import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { createStats } from '../stats.ts'
import {
  createStatsdLines,
  type Dialect,
  dogstatsdDialect,
  packLines,
  statsdDialect,
} from './statsd-lines.ts'

function open(dialect: Dialect = statsdDialect(new Map())) {
  const stats = createStats()
  const lines = createStatsdLines(stats, dialect)
  return { stats, flush: () => [...lines()] }
}

test('a counter is sent as its increase, a gauge each time', () => {
  const { stats, flush } = open()
  let connections = 2
  stats.gauge('connections', () => connections)
  const calls = stats.counter('calls')
  assert.deepEqual(flush(), ['connections:2|g'])
  calls.value += 3
  assert.deepEqual(flush(), ['calls:3|c', 'connections:2|g'])
  connections = -1
  assert.deepEqual(flush(), ['connections:0|g'])
  connections = Number.NaN
  assert.deepEqual(flush(), [])
})

test('changes that were not read are part of the next flush', () => {
  const stats = createStats()
  const lines = createStatsdLines(stats, statsdDialect(new Map()))
  for (const name of ['a', 'b', 'c']) stats.counter(name).value += 1
  assert.equal(lines().next().value, 'a:1|c')
  stats.counter('a').value += 5
  assert.deepEqual([...lines()], ['a:5|c', 'b:1|c', 'c:1|c'])
})

test('the durations of a bucket are one line, whose sample rate has their number', () => {
  const { stats, flush } = open()
  const time = stats.histogram('time')
  time.record(8)
  assert.deepEqual(flush(), ['time:8|ms'])
  for (let call = 0; call < 49; call++) time.record(0.0101)
  time.record(8)
  const [fast, slow, ...others] = flush()
  assert.match(fast ?? '', /^time:0\.0105\|ms\|@0\.0204\d+$/)
  assert.deepEqual([slow, others], ['time:8|ms', []])
  assert.deepEqual(flush(), [])
})

test('receivers that divide by the rate and truncate get the number of durations', () => {
  const { stats, flush } = open()
  const time = stats.histogram('time')
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 250_000 }), times => {
      for (let call = 0; call < times; call++) time.record(1)
      let received = 0
      for (const line of flush()) {
        const rate = /\|@([\d.]+)$/.exec(line)?.[1]
        received += rate === undefined ? 1 : Math.trunc(1 / Number(rate))
      }
      assert.equal(received, times)
    }),
    { numRuns: 50 },
  )
})

test('extra tags of statsd are part of the name, those of dogstatsd follow the value', () => {
  const tags = new Map([
    ['zone', 'eu.west:1'],
    ['commit', '12|3'],
    ['empty', ''],
  ])
  const plain = open(statsdDialect(tags))
  plain.stats.counter('a.b').value += 1
  assert.deepEqual(plain.flush(), ['a.b.__commit=12_3.__zone=eu_west_1:1|c'])

  const mogrifier = { pattern: /^a\.(.*)$/, name: 'a', tags: new Map([['key', '$1']]) }
  const agent = open(dogstatsdDialect(tags, [mogrifier]))
  agent.stats.counter('a.b,c').value += 1
  agent.stats.counter('other').value += 1
  agent.stats.histogram('a.t').record(0)
  assert.deepEqual(agent.flush(), [
    'a:1|c|#commit:12_3,zone:eu_west_1,key:b_c',
    'other:1|c|#commit:12_3,zone:eu_west_1',
    'a:0.0005|ms|#commit:12_3,zone:eu_west_1,key:t',
  ])
  const bare = open(dogstatsdDialect(new Map(), []))
  bare.stats.counter('a').value += 1
  assert.deepEqual(bare.flush(), ['a:1|c'])
})

test('a name from a caller is one line of three parts, without tags', () => {
  const mogrifiers = [{ pattern: /^x(.*)/, name: 'n$1', tags: new Map([['t', '$1']]) }]
  const hostile = fc.string({ unit: fc.constantFrom(...'ab:|#,\n\r.__=@\0é') })
  fc.assert(
    fc.property(hostile, name => {
      const plain = open()
      plain.stats.counter(name).value += 1
      const line = plain.flush().join('!')
      assert.match(line, /^[^\n\r:|]*:1\|c$/)
      const [, ...tags] = line.split('.__')
      assert.ok(!tags.some(tag => tag.includes('=')), line)
      const agent = open(dogstatsdDialect(new Map(), mogrifiers))
      agent.stats.counter(`x${name}`).value += 1
      assert.match(agent.flush().join('!'), /^[^\n\r:|]*:1\|c\|#t:[^\n\r:|,]*$/)
    }),
  )
})

test('only a name that would contain a tag is changed', () => {
  for (const [name, expected] of [
    ['d.__key.total_hits', 'd.__key.total_hits'],
    ['d.__key_a.__b.hits', 'd.__key_a.__b.hits'],
    ['d=e.__key', 'd=e.__key'],
    ['d.__key_a=b', 'd___key_a=b'],
    ['d.__key.__tag=v', 'd___key___tag=v'],
    ['d.__tag=v.__key', 'd___tag=v.__key'],
    ['d..__tag=v', 'd____tag=v'],
    ['d._.__tag=v', 'd_____tag=v'],
    ['d.|_tag=v', 'd___tag=v'],
  ] as const) {
    const zoned = open(statsdDialect(new Map([['zone', 'eu']])))
    zoned.stats.counter(name).value += 1
    assert.deepEqual(zoned.flush(), [`${expected}.__zone=eu:1|c`])
  }
})

test('packets have all lines, unsplit, within the allowed bytes', () => {
  const line = fc.string({ unit: 'grapheme', maxLength: 40 }).map(text => text.replace(/\n/g, ''))
  fc.assert(
    fc.property(fc.array(line), fc.integer({ min: 1, max: 100 }), (lines, maxBytes) => {
      let tooLong = 0
      const packets = [...packLines(lines, maxBytes, () => (tooLong += 1))]
      const fitting = lines.filter(text => Buffer.byteLength(text) + 1 <= maxBytes)
      assert.equal(packets.map(({ text }) => text).join(''), fitting.map(text => `${text}\n`).join(''))
      assert.equal(tooLong, lines.length - fitting.length)
      for (const packet of packets) {
        assert.ok(Buffer.byteLength(packet.text) <= maxBytes && packet.lines > 0)
        assert.equal(packet.text.split('\n').length - 1, packet.lines)
      }
    }),
  )
})
