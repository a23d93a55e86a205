import assert from 'node:assert/strict'
import { test } from 'node:test'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createStats } from '../stats.ts'
import { statsdDialect } from './statsd-lines.ts'
import { createStatsdSink, droppedLinesName } from './statsd-sink.ts'
import { counted, listenTcp, listenUdp, type Receiver, until } from './testing/receivers.ts'
import { openTcpTransport } from './transport.ts'
import { UdpTransport } from './udp-transport.ts'

const openUdp = (options: ConstructorParameters<typeof UdpTransport>[0]) => new UdpTransport(options)

const protocols = {
  tcp: { listen: listenTcp as (port?: number) => Promise<Receiver>, open: openTcpTransport },
  udp: { listen: listenUdp as (port?: number) => Promise<Receiver>, open: openUdp },
}

function openSink(
  protocol: keyof typeof protocols,
  port: number,
  more: Partial<Parameters<typeof openUdp>[0]> = {},
) {
  const stats = createStats()
  const messages: string[] = []
  const log = { ...silentLog, warn: () => messages.push('lost'), info: () => messages.push('back') }
  const dropped = stats.counter(droppedLinesName)
  let writable = () => false
  const sink = createStatsdSink({
    stats,
    dialect: statsdDialect(new Map()),
    openTransport(onWritable) {
      const options = { host: '127.0.0.1', port, dropped, log, random: () => 0.99, onWritable, ...more }
      const transport = protocols[protocol].open(options)
      writable = () => transport.writable()
      return transport
    },
  })
  return { stats, sink, dropped, messages, writable: () => writable() }
}

/** Returns a port without a listener. */
async function freePort(listen: (port?: number) => Promise<Receiver>): Promise<number> {
  const receiver = await listen()
  await receiver.close()
  return receiver.port
}

for (const protocol of ['tcp', 'udp'] as const) {
  const { listen } = protocols[protocol]

  test(`${protocol}: a receiver that starts late gets everything that was not lost in transit`, async t => {
    const port = await freePort(listen)
    const { stats, sink, dropped, messages } = openSink(protocol, port)
    t.after(sink.stop)
    const hits = stats.counter('hits')
    const flush = () => {
      hits.value += 1
      sink.flush()
    }
    const flushing = setInterval(flush, 5)
    t.after(() => clearInterval(flushing))
    await until('the warning', () => messages.length > 0)
    const receiver = await listen(port)
    t.after(receiver.close)
    await until('the recovery message', () => messages.length === 2)
    assert.deepEqual(messages, ['lost', 'back'])
    clearInterval(flushing)
    sink.flush()
    // TCP lost no hits. Every line that UDP sent without a receiver had at least one hit.
    const all = () => counted(receiver, 'hits')
    if (protocol === 'tcp') await until('every hit', () => all() === hits.value, all)
    else await until('the hits since', () => all() > 0 && all() <= hits.value - dropped.value, all)
    assert.equal(dropped.value > 0, protocol === 'udp')
  })

  test(`${protocol}: a restarted receiver is reconnected`, async t => {
    const first = await listen()
    const { stats, sink, messages } = openSink(protocol, first.port)
    t.after(sink.stop)
    const hits = stats.counter('hits')
    const flushing = setInterval(() => {
      hits.value += 1
      sink.flush()
    }, 5)
    t.after(() => clearInterval(flushing))
    await until('the first hits', () => counted(first, 'hits') > 0)
    await first.close()
    await until('the warning', () => messages.includes('lost'))
    const second = await listen(first.port)
    t.after(second.close)
    await until('the hits after', () => counted(second, 'hits') > 0)
  })

  test(`${protocol}: stop without a receiver ends`, async () => {
    const { stats, sink } = openSink(protocol, await freePort(listen))
    stats.counter('hits').value += 1
    sink.flush()
    await sink.stop()
  })
}

test('tcp: a receiver that does not read costs bounded memory and blocks no caller', async t => {
  const receiver = await listenTcp(0, { reads: false })
  t.after(receiver.close)
  const { stats, sink } = openSink('tcp', receiver.port)
  const names = Array.from({ length: 20_000 }, (_, index) => `${'x'.repeat(500)}${index}`)
  for (const name of names) stats.counter(name)
  const before = process.memoryUsage().external + process.memoryUsage().arrayBuffers
  for (let flush = 0; flush < 20; flush++) {
    for (const counter of stats.counters) counter.value += 1
    sink.flush()
    await new Promise(resolve => setImmediate(resolve))
  }
  const grown = process.memoryUsage().external + process.memoryUsage().arrayBuffers - before
  assert.ok(grown < 20 * 1024 * 1024, `200 MB were to be sent, and ${grown} bytes are held`)
  await sink.stop()
})

test('udp: a receiver at one of several addresses is found', async t => {
  const receiver = await listenUdp()
  t.after(receiver.close)
  const addresses = [
    { address: '127.0.0.2', family: 4 },
    { address: '127.0.0.1', family: 4 },
  ]
  const { stats, sink } = openSink('udp', receiver.port, { host: 'two', resolve: async () => addresses })
  t.after(sink.stop)
  const hits = stats.counter('hits')
  const flushing = setInterval(() => {
    hits.value += 1
    sink.flush()
  }, 5)
  t.after(() => clearInterval(flushing))
  await until('the first hits', () => counted(receiver, 'hits') > 0)
})

test('tcp: a receiver is found by its name', async t => {
  const receiver = await listenTcp()
  t.after(receiver.close)
  const { stats, sink } = openSink('tcp', receiver.port, { host: 'localhost' })
  t.after(sink.stop)
  stats.counter('hits').value += 1
  sink.flush()
  await until('the hit', () => counted(receiver, 'hits') === 1)
})

test('udp: datagrams are not fragmented, and a line that is too long is counted', async t => {
  const receiver = await listenUdp()
  t.after(receiver.close)
  const { stats, sink, dropped } = openSink('udp', receiver.port)
  const names = Array.from({ length: 400 }, (_, index) => `name.with.é.${index}`)
  for (const name of [...names, 'x'.repeat(1432)]) stats.counter(name).value += 1
  await sink.stop()
  await until('every name', () => names.every(name => counted(receiver, name) === 1))
  assert.equal(dropped.value, 1)
  const sizes = receiver.pieces.map(({ length }) => length)
  assert.ok(Math.max(...sizes) <= 1432)
  assert.ok(sizes.length < 10, `${sizes.length} datagrams for 400 lines`)
  for (const piece of receiver.pieces) assert.equal(piece.at(-1), 0x0a)
})

test('tcp: lines in transit when the connection breaks are counted as dropped', async t => {
  const receiver = await listenTcp(0, { reads: false })
  const { stats, sink, dropped, writable } = openSink('tcp', receiver.port)
  t.after(sink.stop)
  const names = Array.from({ length: 40_000 }, (_, index) => `${'x'.repeat(500)}${index}`)
  for (const name of names) stats.counter(name).value += 1
  sink.flush()
  await until('the connection', writable)
  // The system's buffers are full when the state has not changed for a while.
  let full = 0
  await until('full buffers', () => {
    full = writable() ? 0 : full + 1
    return full === 25
  })
  await receiver.close()
  await until(
    'dropped lines',
    () => dropped.value > 0,
    () => dropped.value,
  )
})
