import assert from 'node:assert/strict'
import { test } from 'node:test'
import { type Call, type MessageSink, sinkHighWaterBytes } from '../../../server.ts'
import { GrpcError, statusCodes } from '../../../status.ts'
import {
  type CreateServer,
  grpcHeaders,
  openSession,
  openStream,
  startRig,
  texts,
  waitFor,
  waitUntilStill,
  withoutPings,
} from './support.ts'

/** Tests handlers that push their messages. */
export function sinkContract(createServer: CreateServer): void {
  orderContract(createServer)
  backPressureContract(createServer)
  endContract(createServer)
  abortContract(createServer)
}

const path = '/test.Test/Push'
const kilobyte = 'x'.repeat(1024)
/** More messages than the windows and buffers of a connection hold. */
const tooMany = 2000
const prefixBytes = 5

/** Writes numbered messages whenever there is room; resolves when all are written. */
function pushNumbered(
  sink: MessageSink,
  count: number,
  padding: string,
  onWritten = () => {},
): Promise<void> {
  return new Promise(resolve => {
    let next = 0
    const push = () => {
      while (next < count) {
        next += 1
        const room = sink.write(Buffer.from(`${next} ${padding}`))
        onWritten()
        if (!room) break
      }
      if (next === count) resolve()
    }
    sink.onReady(push)
    push()
  })
}

const numberOf = (text: string | undefined) => Number(text?.split(' ')[0])

function orderContract(createServer: CreateServer): void {
  test('messages of any length arrive whole and in order', async t => {
    const lengths = [0, 1, 1300, 16_379, 16_380, 40_000, 0, 200_000, 7]
    const sent = lengths.map((length, index) => String(index).repeat(length))
    const memory = Buffer.alloc(Math.max(...lengths))
    const { client, server } = await startRig(t, withoutPings(createServer), [
      texts.serverSink(path, async (_, _call, sink) => {
        // The bytes may change after `write`.
        for (const text of sent) sink.write(memory.subarray(0, memory.write(text)))
      }),
    ])
    const { stream, readAll, status } = openStream(client, path)
    stream.end(Buffer.alloc(0))
    assert.deepEqual(await readAll(), sent)
    assert.equal((await status).code, statusCodes.OK)
    assert.equal(server.activeCalls, 0)
  })

  test('one message is sent to many callers, from outside of their handlers', async t => {
    const sinks: MessageSink[] = []
    const end = Promise.withResolvers<void>()
    const { client } = await startRig(t, createServer, [
      texts.serverSink(path, async (_, _call, sink) => {
        sinks.push(sink)
        await end.promise
      }),
    ])
    const calls = Array.from({ length: 10 }, () => openStream(client, path))
    for (const { stream } of calls) stream.end(Buffer.alloc(0))
    await waitFor('ten sinks', () => sinks.length === calls.length)
    const sent = ['one', 'two', kilobyte]
    for (const text of sent) {
      const message = Buffer.from(text)
      for (const sink of sinks) assert.equal(sink.write(message), true)
      for (const { read } of calls) assert.equal(await read(), text)
    }
    end.resolve()
    for (const { status } of calls) assert.equal((await status).code, statusCodes.OK)
  })
}

function backPressureContract(createServer: CreateServer): void {
  test('a reader that pauses stops its writer, and starts it again', async t => {
    const written: MessageSink[] = []
    const { client } = await startRig(t, createServer, [
      texts.serverSink(path, async (_, _call, sink) => {
        await pushNumbered(sink, tooMany, kilobyte, () => written.push(sink))
      }),
    ])
    const { stream, read, status } = openStream(client, path)
    stream.end(Buffer.alloc(0))
    assert.equal(numberOf(await read()), 1)
    const still = await waitUntilStill(() => written.length)
    assert.ok(still < tooMany / 2, `${still} messages were written, of which one was read`)
    const queuedBytes = written[0]?.queuedBytes ?? 0
    assert.ok(queuedBytes > sinkHighWaterBytes / 2, `only ${queuedBytes} bytes wait`)
    assert.ok(queuedBytes < sinkHighWaterBytes + 2 * kilobyte.length, `${queuedBytes} bytes wait`)
    for (let number = 2; number <= tooMany; number += 1) assert.equal(numberOf(await read()), number)
    assert.equal(await read(), undefined)
    assert.equal((await status).code, statusCodes.OK)
  })

  test('a reader that pauses does not stop others on its connection', async t => {
    const { port } = await startRig(t, createServer, [
      texts.serverSink(path, (_, _call, sink) => pushNumbered(sink, tooMany, kilobyte)),
    ])
    const session = await openSession(t, port)
    const stalled = session.request(grpcHeaders(path)).on('error', () => {})
    const reading = session.request(grpcHeaders(path)).on('error', () => {})
    for (const stream of [stalled, reading]) stream.end(Buffer.alloc(prefixBytes))
    let bytes = 0
    reading.on('data', (chunk: Buffer) => (bytes += chunk.length))
    await new Promise(resolve => reading.once('end', resolve))
    assert.ok(bytes > tooMany * (prefixBytes + kilobyte.length), `${bytes} bytes`)
    assert.ok(stalled.readableLength < sinkHighWaterBytes * 2, `${stalled.readableLength} bytes`)
  })

  test('waiting messages can be dropped for an error', async t => {
    const gate = Promise.withResolvers<void>()
    let written = 0
    const { client, defects } = await startRig(t, createServer, [
      texts.serverSink(path, async (_, _call, sink) => {
        void pushNumbered(sink, tooMany, kilobyte, () => (written += 1))
        await gate.promise
        sink.discard()
        assert.equal(sink.queuedBytes, 0)
        throw new GrpcError('RESOURCE_EXHAUSTED', 'too slow')
      }),
    ])
    const { stream, read, readAll, status } = openStream(client, path)
    stream.end(Buffer.alloc(0))
    await read()
    await waitUntilStill(() => written)
    gate.resolve()
    const rest = await readAll()
    assert.ok(1 + rest.length < written, `${1 + rest.length} of ${written} messages came`)
    assert.equal((await status).code, statusCodes.RESOURCE_EXHAUSTED)
    assert.equal((await status).details, 'too slow')
    assert.deepEqual(defects, [])
  })

  for (const [name, end] of flushEnds) {
    test(`a flush waits until the last message ${name}`, async t => {
      const written = Promise.withResolvers<MessageSink>()
      const flushed = Promise.withResolvers<void>()
      const { client, server } = await startRig(t, createServer, [
        texts.serverSink(path, async (_, _call, sink) => {
          await sink.flush()
          for (let count = 0; count < tooMany; count += 1) sink.write(Buffer.from(kilobyte))
          written.resolve(sink)
          await sink.flush()
          assert.equal(sink.queuedBytes, 0)
          flushed.resolve()
        }),
      ])
      const { stream, read } = openStream(client, path)
      stream.end(Buffer.alloc(0))
      await read()
      const sink = await written.promise
      let over = false
      void flushed.promise.then(() => (over = true))
      await waitUntilStill(() => sink.queuedBytes)
      assert.ok(!over && sink.queuedBytes > 0, `${sink.queuedBytes} bytes wait`)
      end({ stream, sink })
      await flushed.promise
      stream.resume()
      await waitFor('the end of the call', () => server.activeCalls === 0)
    })
  }
}

type OpenStream = ReturnType<typeof openStream>['stream']

const flushEnds: readonly [string, (call: { stream: OpenStream; sink: MessageSink }) => void][] = [
  ['is read', ({ stream }) => void stream.resume()],
  ['is dropped', ({ sink }) => sink.discard()],
  ['is cancelled', ({ stream }) => stream.cancel()],
]

function endContract(createServer: CreateServer): void {
  for (const [name, error, expected] of [
    ['OK', undefined, { code: statusCodes.OK, details: '' }],
    ['a GrpcError', new GrpcError('ABORTED', 'no more'), { code: statusCodes.ABORTED, details: 'no more' }],
    ['an exception', new Error('secret'), { code: statusCodes.INTERNAL, details: 'internal error' }],
  ] as const) {
    test(`an end by ${name} comes after the waiting messages`, async t => {
      const count = 200
      let late = true
      const { client, server, defects } = await startRig(t, createServer, [
        texts.serverSink(path, async (_, call, sink) => {
          call.sendHeaders(new Map([['x-early', ['yes']]]))
          call.setTrailers(new Map([['x-late', ['yes']]]))
          for (let number = 1; number <= count; number += 1) sink.write(Buffer.from(`${number} ${kilobyte}`))
          assert.throws(() => call.sendHeaders(new Map()), /headers/)
          setImmediate(() => (late = sink.write(Buffer.from('late'))))
          if (error) throw error
        }),
      ])
      const { stream, readAll, status } = openStream(client, path)
      const headers = new Promise<string>(resolve =>
        stream.once('metadata', metadata => resolve(String(metadata.get('x-early')))),
      )
      stream.end(Buffer.alloc(0))
      assert.equal(await headers, 'yes')
      assert.deepEqual(
        (await readAll()).map(numberOf),
        Array.from({ length: count }, (_, index) => index + 1),
      )
      const { code, details, metadata } = await status
      assert.deepEqual({ code, details }, expected)
      assert.deepEqual(metadata.get('x-late'), name === 'an exception' ? [] : ['yes'])
      assert.equal(late, false, 'a write after the end')
      assert.equal(server.activeCalls, 0)
      assert.deepEqual(defects, name === 'an exception' ? [{ path, error }] : [])
    })
  }

  test('a message longer than maxSendBytes is RESOURCE_EXHAUSTED, and aborts the signal', async t => {
    let call: Call | undefined
    const { client, server, defects } = await startRig(
      t,
      createServer,
      [
        texts.serverSink(path, async (_, ofCall, sink) => {
          call = ofCall
          assert.equal(sink.write(Buffer.alloc(1000)), true)
          assert.equal(sink.write(Buffer.alloc(1001)), false)
        }),
      ],
      { maxSendBytes: 1000 },
    )
    const { stream, status } = openStream(client, path)
    stream.resume().end(Buffer.alloc(0))
    const { code, details } = await status
    assert.equal(code, statusCodes.RESOURCE_EXHAUSTED)
    assert.match(details, /1001.*1000/)
    assert.equal(call?.signal.aborted, true)
    await waitFor('no call', () => server.activeCalls === 0)
    assert.deepEqual(defects, [])
  })
}

function abortContract(createServer: CreateServer): void {
  test('after a cancellation no message waits or is accepted, and no listener is called', async t => {
    const sinks: MessageSink[] = []
    let told = 0
    const { client, server, defects } = await startRig(t, createServer, [
      texts.serverSink(path, async (_, { signal }, sink) => {
        sinks.push(sink)
        const aborted = new Promise(resolve => signal.addEventListener('abort', resolve))
        const fill = () => {
          if (signal.aborted) told += 1
          while (sink.write(Buffer.from(kilobyte)));
        }
        sink.onReady(fill)
        fill()
        await aborted
      }),
    ])
    const { stream, read, status } = openStream(client, path)
    stream.end(Buffer.alloc(0))
    await read()
    stream.cancel()
    assert.equal((await status).code, statusCodes.CANCELLED)
    await waitFor('no call', () => server.activeCalls === 0)
    const [sink] = sinks
    assert.equal(sink?.write(Buffer.from('late')), false)
    assert.equal(sink?.queuedBytes, 0)
    assert.equal(told, 0)
    assert.deepEqual(defects, [])
  })

  test('a call whose handler has ended and whose messages wait can be cancelled', async t => {
    let ended = false
    const { client, server } = await startRig(t, createServer, [
      texts.serverSink(path, async (_, _call, sink) => {
        for (let count = 0; count < tooMany; count += 1) sink.write(Buffer.from(kilobyte))
        ended = true
      }),
    ])
    const { stream, read } = openStream(client, path)
    stream.end(Buffer.alloc(0))
    await read()
    await waitFor('the end of the handler', () => ended)
    assert.equal(server.activeCalls, 1)
    stream.cancel()
    await waitFor('no call', () => server.activeCalls === 0)
  })

  test('a listener that throws is reported, and does not affect others', async t => {
    const error = new Error('in the listener')
    const { client, defects } = await startRig(t, createServer, [
      texts.serverSink(path, async (_, call, sink) => {
        const told = Promise.withResolvers<void>()
        sink.onReady(() => {
          told.resolve()
          throw error
        })
        while (sink.write(Buffer.from(kilobyte)));
        await told.promise
        assert.equal(call.signal.aborted, false)
      }),
    ])
    const { stream, readAll, status } = openStream(client, path)
    stream.end(Buffer.alloc(0))
    assert.ok((await readAll()).every(text => text === kilobyte))
    assert.equal((await status).code, statusCodes.OK)
    assert.deepEqual(defects, [{ path, error }])
  })
}
