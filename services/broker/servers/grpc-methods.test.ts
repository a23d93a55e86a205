import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { BrokerStats } from '../broker-stats.ts'
import { defaultRoute, type Route } from '../routes/route.ts'
import { MemoryLog } from '../stream-log/memory.ts'
import { systemRepeat } from '../stream-log/repeat.ts'
import { Broker } from '../streams/broker.ts'
import { defaultBrokerLimits, encodeText } from '../streams/testing/simulation-under-test.ts'
import { encodeHeader } from '../wire/testing/encode-messages.ts'
import { animationMethods, animationServices } from './grpc-methods.ts'
import { openAnimationClient } from './testing/animation-client.ts'

/** Starts a server with the methods of a broker that has one route for all requests. */
async function start(t: TestContext, changes: Partial<Route> = {}) {
  const log = new MemoryLog({ clock: systemClock, repeat: systemRepeat, newKey: randomUUID })
  const stats = new BrokerStats()
  const route = { ...defaultRoute, ...changes }
  const broker = new Broker(
    {
      ...{ log, stats, clock: systemClock, limits: defaultBrokerLimits },
      routes: { choose: () => route, onChange: () => () => {} },
      tracing: undefined,
      newTraceparent: () => '',
      onBegun() {},
    },
    systemRepeat,
  )
  const defects: unknown[] = []
  const server = createGrpcServer({
    methods: animationMethods(broker, { publicName: true }),
    onDefect: (_, error) => defects.push(error),
  })
  t.after(async () => {
    await broker.close()
    await server.drain(0)
    assert.deepEqual(defects, [])
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  return {
    broker,
    stats,
    open: (service?: string) =>
      openAnimationClient(t, `127.0.0.1:${bound.port}`, service === undefined ? {} : { service }),
  }
}

test('both service names use the same broker', async t => {
  const { open } = await start(t)
  const pull = open(animationServices.public).pull({ streamId: 's' })
  const push = open(animationServices.specified).push()
  push.write(encodeText('header', 'r1'))
  await pull.until('header r1')
})

test('malformed ids of a pull are INVALID_ARGUMENT', async t => {
  const { open } = await start(t)
  assert.match(await open().pull({ streamId: 'x'.repeat(10_000) }).end, /^INVALID_ARGUMENT AnimationIds: /)
  assert.match(await open().pull({}).end, /^INVALID_ARGUMENT AnimationIds: all three are empty/)
})

test('a message beyond the limit of the server is rejected, and consumers get an error', async t => {
  const { open } = await start(t)
  const pull = open().pull({ requestId: 'r1' })
  const push = open().push()
  push.write(encodeText('header', 'r1'))
  await pull.until('header r1')
  push.write(Buffer.alloc(5 * 1024 * 1024))
  assert.match(await push.answer, /^RESOURCE_EXHAUSTED the request message has 5242880 bytes/)
  assert.equal(await pull.end, 'OK')
  assert.match(
    pull.texts().at(-1) ?? '',
    /^ERROR the producer is gone: the request message has 5242880 bytes/,
  )
})

const frame = Buffer.concat([encodeText('1'), Buffer.from([0x9a, 0x06, 0xfa, 0x07]), Buffer.alloc(1018)])
const frames = 2_500

/** Pushes far more bytes than all buffers hold, as fast as the broker reads. */
async function pushMany(client: ReturnType<typeof openAnimationClient>) {
  const push = client.push()
  push.write(encodeText('header', 'r1'))
  for (let sent = 0; sent < frames; sent += 1) {
    push.write(frame)
    if (sent % 100 === 0) await new Promise(resolve => setImmediate(resolve))
  }
  push.write(encodeText('SUCCESS'))
  push.end()
  return push
}

for (const slowConsumers of ['drop-oldest', 'cut-off'] as const) {
  test(`a consumer that does not read does not affect others: ${slowConsumers}`, async t => {
    const limits = { ...defaultRoute.limits, bufferBytes: 200_000 }
    const { open, stats, broker } = await start(t, { slowConsumers, limits })
    const stalled = open().pull({ requestId: 'r1' })
    const others = [1, 2, 3].map(() => open().pull({ requestId: 'r1' }))
    await waitFor('the pulls', () => broker.waitingPulls === 4)
    stalled.stall()
    const push = await pushMany(open())
    const answer = await push.answer
    assert.match(answer, /^SUCCESS 2502 messages/)
    for (const other of others) {
      assert.equal(await other.end, 'OK')
      assert.equal(other.texts().length, frames + 2)
    }
    stalled.resume()
    if (slowConsumers === 'cut-off') {
      assert.match(await stalled.end, /^RESOURCE_EXHAUSTED too slow: \d+ messages behind what is kept/)
      assert.equal(stats.route('').counters.consumers_cut_off, 1)
      return
    }
    assert.equal(await stalled.end, 'OK')
    const gaps = stalled.texts().flatMap(text => /^WARNING (\d+) messages were dropped/.exec(text)?.[1] ?? [])
    const dropped = gaps.reduce((total, gap) => total + Number(gap), 0)
    assert.ok(dropped > 0)
    assert.equal(stalled.texts().length - gaps.length + dropped, frames + 2)
    assert.equal(stats.route('').counters.messages_dropped, dropped)
  })
}

test('a producer waits only for a consumer that does not read', async t => {
  const limits = { ...defaultRoute.limits, bufferBytes: 200_000 }
  const { open, stats, broker } = await start(t, { slowConsumers: 'wait', limits })
  const stalled = open().pull({ requestId: 'r1' })
  await waitFor('the pull', () => broker.waitingPulls === 1)
  stalled.stall()
  const push = await pushMany(open())
  const { counters } = stats.route('')
  let before = -1
  await waitFor('the producer to wait', () => {
    const same = counters.messages_in === before
    before = counters.messages_in
    return same && before > 0
  })
  assert.ok(counters.messages_in < frames)
  stalled.resume()
  assert.match(await push.answer, /^SUCCESS/)
  assert.equal(await stalled.end, 'OK')
  assert.equal(stalled.texts().length, frames + 2)
})

test('a pull by object gets the stream and the request that replaced another one', async t => {
  const { open } = await start(t, { concurrentRequests: 'newest' })
  const pull = open().pull({ targetObjectId: 'avatar' })
  const begin = (streamId: string, requestId: string) => {
    const push = open().push()
    push.write(encodeHeader({ animationIds: { streamId, requestId, targetObjectId: 'avatar' } }))
    push.write(encodeText('1'))
  }
  begin('kiosk-1', 'r1')
  await pull.until('1')
  begin('kiosk-2', '')
  const superseded = 'WARNING superseded by the request "" of the stream "kiosk-2"'
  await waitFor(superseded, () => pull.texts().includes(superseded))
})
