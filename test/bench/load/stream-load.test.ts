import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { MessageSink } from '@tollway/grpc/server.ts'
import fc from 'fast-check'
import { headerMessage, lastStatus, pullPath, pushPath } from './animation-messages.ts'
import { createFrameWalker } from './frame-walker.ts'
import { frame, frameTypes } from './frames.ts'
import { createMessageReader } from './message-reader.ts'
import { headroomBytes } from './stream-connection.ts'
import { openStreamLoad } from './stream-load.ts'

const bytes = { decode: (message: Uint8Array) => message, encode: (message: Uint8Array) => message }

/** Sends each message of any push to every pull, except those that `isDropped`. */
async function startRelay(t: TestContext, isDropped: (message: number) => boolean): Promise<number> {
  const pulls = new Map<MessageSink, () => void>()
  let messages = 0
  const server = createGrpcServer({
    methods: [
      {
        ...bytes,
        path: pushPath,
        kind: 'client-stream',
        async handle(requests: AsyncIterable<Uint8Array>) {
          for await (const message of requests) {
            if (!isDropped(messages++)) for (const sink of pulls.keys()) sink.write(message)
          }
          for (const end of pulls.values()) end()
          return Buffer.alloc(0)
        },
      },
      {
        ...bytes,
        path: pullPath,
        kind: 'server-sink',
        handle: (_: Uint8Array, __: unknown, sink: MessageSink) =>
          new Promise<void>(resolve => pulls.set(sink, resolve)),
      },
    ],
    onDefect: (_, error) => assert.fail(`${error}`),
  })
  t.after(() => server.drain(0))
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  return bound.port
}

function open(port: number, consumers: number) {
  return openStreamLoad({ pushPort: port, pullPort: port, name: 'test', streams: 1, consumers })
}

test('every message of a load at a rate is delivered to each consumer, with its latency', async t => {
  const load = await open(await startRelay(t, () => false), 5)
  for (let round = 0; round < 2; round += 1) {
    const { deliveries, lost, seconds, latenciesMs } = await load.atRate(200, 100)
    assert.deepEqual([deliveries, lost, latenciesMs.length], [100, 0, 100])
    assert.ok(latenciesMs.every(ms => ms > 0 && ms <= seconds * 1000))
  }
  await load.end()
})

test('a flood fills the windows of the server, and loses nothing', async t => {
  const load = await open(await startRelay(t, () => false), 2)
  await load.stall()
  const { deliveries, lost } = await load.flatOut(100)
  assert.ok(deliveries > 100, `${deliveries} deliveries`)
  assert.equal(lost, 0)
  await load.end()
})

test('missing messages are lost, one for each consumer', async t => {
  const load = await open(await startRelay(t, message => message === 5 || message === 6), 3)
  const { deliveries, lost } = await load.atRate(200, 100)
  assert.deepEqual([deliveries, lost], [3 * 18, 3 * 2])
  await load.end()
})

test('every split into frames and chunks yields the same messages', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 3000 }), { minLength: 1, maxLength: 20 })
  fc.assert(
    fc.property(sizes, sizes, (frameSizes, chunkSizes) => {
      const sent = [headerMessage('a'), lastStatus(), headerMessage('b')].map(message => {
        const body = message.subarray(headroomBytes)
        const prefix = Buffer.alloc(5)
        prefix.writeUInt32BE(body.length, 1)
        return Buffer.concat([prefix, body])
      })
      const received: string[] = []
      const read = createMessageReader((buffer, start, end) => {
        received.push(buffer.toString('hex', start, end))
      })
      const walk = createFrameWalker({ onBody: (_, ...place) => read(...place), onData() {}, onFrame() {} })
      const frames = cut(Buffer.concat(sent), frameSizes).flatMap(part => [
        frame(frameTypes.data, 0, 1, part),
        frame(frameTypes.ping, 0, 0, Buffer.alloc(8)),
      ])
      for (const chunk of cut(Buffer.concat(frames), chunkSizes)) walk(chunk)
      assert.deepEqual(
        received,
        sent.map(message => message.toString('hex', 5)),
      )
    }),
  )
})

/** Splits into parts of these sizes, repeatedly. */
function cut(whole: Buffer, sizes: readonly number[]): Buffer[] {
  const parts: Buffer[] = []
  for (let at = 0; at < whole.length; at += parts.at(-1)?.length ?? 0) {
    parts.push(whole.subarray(at, at + (sizes[parts.length % sizes.length] ?? 1)))
  }
  return parts
}
