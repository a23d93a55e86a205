import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createStats, type Stats } from '../stats.ts'
import { createLogSink } from './log-sink.ts'
import type { Sink } from './sink.ts'
import { dogstatsdDialect, statsdDialect } from './statsd-lines.ts'
import { createStatsdSink, droppedLinesName } from './statsd-sink.ts'
import { countersOf, listenTcp, listenUdp, type Receiver, until } from './testing/receivers.ts'
import { openTcpTransport } from './transport.ts'
import { UdpTransport } from './udp-transport.ts'

/** A sink, and the values that its receiver counted under each name. */
interface Opened {
  readonly sink: Sink
  received(): ReadonlyMap<string, number>
  close(): Promise<void>
}

const sinks: Readonly<Record<string, (stats: Stats) => Promise<Opened>>> = {
  'statsd over TCP': async stats => overNetwork(stats, await listenTcp(), openTcpTransport),
  'statsd over UDP': async stats =>
    overNetwork(stats, await listenUdp(), options => new UdpTransport(options)),
  dogstatsd: async stats =>
    overNetwork(
      stats,
      await listenUdp(),
      options => new UdpTransport(options),
      dogstatsdDialect(new Map([['a', 'b']]), []),
    ),
  log: async stats => {
    const texts: string[] = []
    const sink = createLogSink(stats, text => texts.push(text))
    const received = () => {
      const sums = new Map<string, number>()
      for (const line of texts.join('').split('\n').slice(0, -1)) {
        const { name, value } = JSON.parse(line)
        sums.set(name, (sums.get(name) ?? 0) + value)
      }
      return sums
    }
    return { sink, received, close: () => sink.stop() }
  },
}

function overNetwork(
  stats: Stats,
  receiver: Receiver,
  open: typeof openTcpTransport,
  dialect = statsdDialect(new Map()),
): Opened {
  const sink = createStatsdSink({
    stats,
    dialect,
    openTransport: onWritable =>
      open({
        host: '127.0.0.1',
        port: receiver.port,
        dropped: stats.counter(droppedLinesName),
        log: silentLog,
        random: Math.random,
        onWritable,
      }),
  })
  const close = async () => {
    await sink.stop()
    await receiver.close()
  }
  return { sink, received: () => countersOf(receiver.lines()), close }
}

for (const [name, open] of Object.entries(sinks)) {
  test(`${name}: every count arrives once, for any number of flushes`, async t => {
    const stats = createStats()
    const { sink, received, close } = await open(stats)
    t.after(close)
    sink.flush()
    let total = 0
    for (const added of [1, 0, 5, 1000]) {
      total += added
      stats.counter('a.hits').value += added
      sink.flush()
      sink.flush()
      const hits = () => received().get('a.hits')
      await until(`${total} hits`, () => hits() === total, hits)
    }
  })

  test(`${name}: stop sends all remaining changes, and may be called twice`, async t => {
    const stats = createStats()
    const { sink, received, close } = await open(stats)
    t.after(close)
    stats.counter('first').value += 1
    sink.flush()
    await until('the first hit', () => received().get('first') === 1)
    const names = Array.from({ length: 2000 }, (_, index) => `some.name.that.is.not.short.${index}`)
    for (const each of names) stats.counter(each).value += 1
    sink.flush()
    stats.counter('first').value += 2
    await Promise.all([sink.stop(), sink.stop()])
    await until('all hits', () => {
      const hits = received()
      return hits.get('first') === 3 && names.every(each => hits.get(each) === 1)
    })
    stats.counter('first').value += 4
    sink.flush()
    assert.equal(received().get('first'), 3)
  })
}
