import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Call } from '../../../server.ts'
import { GrpcError, statusCodes } from '../../../status.ts'
import {
  type CreateServer,
  frame,
  openClient,
  openFrames,
  openProxy,
  openSession,
  openStream,
  request,
  startRig,
  texts,
  waitFor,
  waitUntilStill,
} from './support.ts'

/** Tests back-pressure, half-close, and calls that end before their handler does. */
export function streamContract(createServer: CreateServer): void {
  backPressureContract(createServer)
  halfCloseContract(createServer)
  cancellationContract(createServer)
}

const bigText = 'x'.repeat(64 * 1024)
/** More messages than the windows and buffers of a connection hold. */
const tooMany = 300

function backPressureContract(createServer: CreateServer): void {
  test('a slow reader slows down a fast writer, and loses no message', async t => {
    let produced = 0
    const { client } = await startRig(t, createServer, [
      texts.serverStream('/test.Test/Fast', async function* () {
        for (; produced < tooMany; produced += 1) yield bigText
      }),
    ])
    const { stream, read, readAll } = openStream(client, '/test.Test/Fast')
    stream.end(Buffer.alloc(0))
    await read()
    const still = await waitUntilStill(() => produced)
    assert.ok(still < tooMany / 2, `${still} messages were asked for, of which one was read`)
    assert.equal((await readAll()).length, tooMany - 1)
  })

  test('a slow handler slows down a fast client, and loses no message', async t => {
    const gate = Promise.withResolvers<void>()
    const { client } = await startRig(t, createServer, [
      texts.clientStream('/test.Test/Slow', async requests => {
        let read = 0
        for await (const _ of requests) {
          if (read === 0) await gate.promise
          read += 1
        }
        return String(read)
      }),
    ])
    const { stream, read } = openStream(client, '/test.Test/Slow')
    let taken = 0
    for (let sent = 0; sent < tooMany; sent += 1) stream.write(Buffer.from(bigText), () => (taken += 1))
    stream.end()
    const still = await waitUntilStill(() => taken)
    assert.ok(still < tooMany / 2, `${still} messages were taken, of which the handler read one`)
    gate.resolve()
    assert.equal(await read(), String(tooMany))
  })
}

function halfCloseContract(createServer: CreateServer): void {
  test('bidi: each side may wait for the other, and the server ends the call', async t => {
    const { client, server } = await startRig(t, createServer, [
      texts.bidi('/test.Test/Talk', async function* (requests) {
        yield 'welcome'
        for await (const text of requests) yield `${text} too`
        yield 'still here'
        yield 'bye'
      }),
    ])
    const { stream, write, read, readAll, status } = openStream(client, '/test.Test/Talk')
    assert.equal(await read(), 'welcome')
    for (const text of ['I', 'you', 'she']) {
      write(text)
      assert.equal(await read(), `${text} too`)
    }
    stream.end()
    assert.deepEqual(await readAll(), ['still here', 'bye'])
    assert.equal((await status).code, statusCodes.OK)
    await waitFor('no call', () => server.activeCalls === 0)
  })

  test('a handler may answer without having read everything', async t => {
    const { client, server } = await startRig(t, createServer, [
      texts.bidi('/test.Test/First', async function* (requests) {
        for await (const text of requests) {
          yield text
          return
        }
      }),
    ])
    const { stream, write, readAll, status } = openStream(client, '/test.Test/First')
    for (const text of ['one', 'two', bigText, bigText]) write(text)
    assert.deepEqual(await readAll(), ['one'])
    assert.equal((await status).code, statusCodes.OK)
    stream.end()
    assert.equal(server.activeCalls, 0)
  })
}

/**
 * Creates methods whose handlers run until their signal aborts, and records how they end. Callers on Node end
 * their side before they cancel, so the end of the requests alone must not end the handler.
 */
function createEndless() {
  const seen: { call: Call | undefined; finished: boolean } = { call: undefined, finished: false }
  async function untilAborted(call: Call): Promise<void> {
    seen.call = call
    if (call.signal.aborted) return
    await new Promise(resolve => call.signal.addEventListener('abort', resolve, { once: true }))
  }
  const methods = [
    texts.unary('/test.Test/Unary', async (_, call) => {
      await untilAborted(call)
      seen.finished = true
      return ''
    }),
    texts.clientStream('/test.Test/ClientStream', async (requests, call) => {
      seen.call = call
      try {
        for await (const _ of requests);
        await untilAborted(call)
        return ''
      } finally {
        seen.finished = true
      }
    }),
    texts.serverStream('/test.Test/ServerStream', async function* (_, call) {
      seen.call = call
      try {
        for (;;) yield bigText
      } finally {
        seen.finished = true
      }
    }),
    texts.serverSink('/test.Test/ServerSink', async (_, call, sink) => {
      const write = () => {
        while (sink.write(Buffer.from(bigText)));
      }
      sink.onReady(write)
      write()
      await untilAborted(call)
      assert.equal(sink.write(Buffer.alloc(1)), false)
      seen.finished = true
    }),
    texts.bidi('/test.Test/Bidi', async function* (requests, call) {
      seen.call = call
      try {
        for await (const text of requests) yield text
        await untilAborted(call)
      } finally {
        seen.finished = true
      }
    }),
  ]
  return { seen, methods }
}

function cancellationContract(createServer: CreateServer): void {
  for (const { path } of createEndless().methods) {
    for (const [cause, status] of [
      ['the caller cancels', 'CANCELLED'],
      ['the connection is lost', 'UNAVAILABLE'],
      ['the deadline passes', 'DEADLINE_EXCEEDED'],
    ] as const) {
      test(`${path}: the signal is aborted and the handler unwinds when ${cause}`, async t => {
        const { seen, methods } = createEndless()
        const { port, server, defects } = await startRig(t, createServer, methods)
        const proxy = await openProxy(t, port)
        const client = openClient(t, `127.0.0.1:${proxy.port}`)
        // The connection is opened first, so that the deadline measures only the call.
        await new Promise(resolve => client.waitForReady(Date.now() + 10_000, resolve))
        const late = cause === 'the deadline passes'
        const call = openStream(client, path, late ? { timeoutMs: 300 } : {})
        call.write('')
        if (!/ClientStream|Bidi/.test(path)) call.stream.end()
        await waitFor('the call', () => seen.call !== undefined)
        if (late) {
          const deadlineMs = seen.call?.deadlineMs ?? 0
          assert.ok(Math.abs(deadlineMs - performance.now()) < 5_000, `deadline ${deadlineMs}`)
        } else {
          assert.equal(seen.call?.deadlineMs, undefined)
          if (cause === 'the caller cancels') call.stream.cancel()
          else proxy.cut()
        }
        assert.equal((await call.status).code, statusCodes[status])
        await waitFor('an aborted signal', () => seen.call?.signal.aborted === true)
        await waitFor('a finally block that has run', () => seen.finished)
        await waitFor('no call', () => server.activeCalls === 0)
        const { reason } = seen.call?.signal ?? {}
        assert.ok(reason instanceof GrpcError)
        // A caller also cancels when its deadline passes, and the cancellation may arrive first. A server on
        // grpc-js does not distinguish a lost connection from a cancelled call.
        const reasons: number[] = [statusCodes.CANCELLED, statusCodes[status]]
        assert.ok(reasons.includes(reason.code), reason.message)
        assert.deepEqual(defects, [])
      })
    }
  }

  test('a reset ends the stream of requests with an error, also before unread messages', async t => {
    const gate = Promise.withResolvers<void>()
    const signals: AbortSignal[] = []
    let outcome = ''
    const { port, server } = await startRig(t, createServer, [
      texts.clientStream('/test.Test/Sum', async (requests, { signal }) => {
        signals.push(signal)
        try {
          for await (const _ of requests) await gate.promise
          outcome = 'ended'
        } catch (error) {
          outcome = String(error)
        }
        return ''
      }),
    ])
    const caller = await openFrames(t, port)
    caller.begin(1, '/test.Test/Sum')
    for (const text of ['one', 'two', 'three']) caller.send(1, frame(text))
    caller.begin(3, '/test.Test/Sum')
    await waitFor('two calls', () => server.activeCalls === 2)
    caller.reset(1)
    await waitFor('an aborted signal', () => signals[0]?.aborted === true)
    gate.resolve()
    await waitFor('an outcome', () => outcome !== '')
    assert.match(outcome, /caller has disconnected/)
    await waitFor('only the second call', () => server.activeCalls === 1)
    assert.equal(signals[1]?.aborted, false)
  })

  test('a cancellation is noticed while messages wait to be sent', async t => {
    let finished = false
    const { client, server } = await startRig(t, createServer, [
      texts.bidi('/test.Test/Flood', async function* () {
        try {
          for (;;) yield bigText
        } finally {
          finished = true
        }
      }),
    ])
    const { stream, write, read } = openStream(client, '/test.Test/Flood')
    for (let sent = 0; sent < 10; sent += 1) write(bigText)
    await read()
    stream.cancel()
    await waitFor('a finally block that has run', () => finished)
    await waitFor('no call', () => server.activeCalls === 0)
  })

  test('a broken connection ends all its calls', async t => {
    const signals: AbortSignal[] = []
    const { port, server } = await startRig(t, createServer, [
      texts.bidi('/test.Test/Bidi', async function* (requests, call) {
        signals.push(call.signal)
        yield* requests
      }),
    ])
    const session = await openSession(t, port)
    for (let call = 0; call < 10; call += 1) {
      const headers = { ':method': 'POST', ':path': '/test.Test/Bidi', 'content-type': 'application/grpc' }
      session.request(headers).on('error', () => {})
    }
    await waitFor('ten calls', () => signals.length === 10)
    assert.equal(server.activeCalls, 10)
    session.socket.destroy()
    await waitFor('ten aborted signals', () => signals.every(signal => signal.aborted))
    await waitFor('no call', () => server.activeCalls === 0)
  })

  test('an answered call does not abort its signal', async t => {
    let signal: AbortSignal | undefined
    const { client, server } = await startRig(t, createServer, [
      texts.unary('/test.Test/Unary', (text, call) => {
        signal = call.signal
        return text
      }),
    ])
    await request(client, '/test.Test/Unary')
    client.close()
    await server.drain(0)
    assert.equal(signal?.aborted, false)
  })

  test('an exception after the caller has disconnected is still reported', async t => {
    const error = new Error('in the finally block')
    const { client, defects } = await startRig(t, createServer, [
      texts.serverStream('/test.Test/Stream', async function* (_, call) {
        try {
          yield 'one'
          await new Promise(resolve => call.signal.addEventListener('abort', resolve))
        } finally {
          // biome-ignore lint/correctness/noUnsafeFinally: this is the exception under test
          throw error
        }
      }),
    ])
    const { stream, read } = openStream(client, '/test.Test/Stream')
    stream.end(Buffer.alloc(0))
    await read()
    stream.cancel()
    await waitFor('a defect', () => defects.length > 0)
    assert.deepEqual(defects, [{ path: '/test.Test/Stream', error }])
  })
}
