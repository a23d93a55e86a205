import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import http2 from 'node:http2'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitByTurns } from '../../../test/support/wait-for.ts'
import { createGrpcServer } from '../server/create-server.ts'
import { openProxy, textCodec, texts, waitFor, waitUntilStill } from '../server/testing/contract/support.ts'
import type { AnyMethod } from '../server.ts'
import { GrpcError, statusCodes } from '../status.ts'
import { createGrpcClient } from './client.ts'

async function start(t: TestContext, methods: readonly AnyMethod[]) {
  const server = createGrpcServer({ methods, onDefect: error => assert.fail(String(error)) })
  t.after(() => server.drain(0))
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  return { server, port: bound.port, client: openClient(t, bound.port) }
}

function openClient(t: TestContext, port: number, options?: Parameters<typeof createGrpcClient>[1]) {
  const client = createGrpcClient(`127.0.0.1:${port}`, options)
  t.after(() => client.close())
  return client
}

const path = '/test.Test/Call'
const echoEach = texts.bidi(path, requests => requests)
const endless = texts.unary(
  path,
  (_, { signal }) => new Promise(resolve => signal.addEventListener('abort', () => resolve(''))),
)

/** Starts a server that never answers a call, and counts pings. */
async function startPingCounter(t: TestContext) {
  const counts = { pings: 0, opened: 0 }
  const server = http2.createServer()
  server.on('session', session => {
    session.on('ping', () => (counts.pings += 1))
    t.after(() => session.destroy())
  })
  server.on('stream', stream => {
    counts.opened += 1
    stream.on('error', () => {})
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  t.after(() => server.close())
  const { port } = server.address() as AddressInfo
  return { port, pings: () => counts.pings, opened: () => counts.opened }
}

/**
 * Sends SETTINGS on another connection, and waits for the acknowledgement: by then the server has read what
 * arrived before.
 */
async function oneTrip(port: number): Promise<void> {
  const session = http2.connect(`http://127.0.0.1:${port}`)
  await once(session, 'localSettings')
  session.destroy()
}

/**
 * Returns in how many milliseconds the kernel probes a connection to the port; undefined if it does not probe
 * (proc(5), net/tcp).
 */
function keepaliveDueMs(port: number): number | undefined {
  const remote = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  for (const line of readFileSync('/proc/self/net/tcp', 'utf8').split('\n')) {
    const [, , remoteAddress = '', state, , timer = ''] = line.trim().split(/\s+/)
    const [kind, due = ''] = timer.split(':')
    if (remoteAddress.endsWith(remote) && state === '01' && kind === '02')
      return Number.parseInt(due, 16) * 10
  }
  return undefined
}

/** Returns the error with which a promise rejects. */
async function failure(promise: Promise<unknown>): Promise<GrpcError> {
  try {
    await promise
  } catch (error) {
    assert.ok(error instanceof GrpcError, String(error))
    return error
  }
  throw new Error('no error')
}

test('unary: an answer, or the error as the server threw it', async t => {
  const trailers = new Map([['x-why', ['because']]])
  const { client } = await start(t, [
    texts.unary(path, text => {
      if (text === 'fail') throw new GrpcError('NOT_FOUND', 'nöt here', trailers)
      return `${text}!`
    }),
  ])
  assert.equal(await client.unary(path, textCodec, 'hello'), 'hello!')
  assert.equal(await client.unary(path, textCodec, ''), '!')
  const error = await failure(client.unary(path, textCodec, 'fail'))
  assert.equal(error.code, statusCodes.NOT_FOUND)
  assert.equal(error.message, 'nöt here')
  assert.deepEqual(error.trailers?.get('x-why'), ['because'])
})

test("a client's metadata is sent with every call, and the call's takes precedence", async t => {
  const { port } = await start(t, [
    texts.unary(path, (_, { metadata }) => `${metadata.get('x-client')} ${metadata.get('x-both')}`),
  ])
  const metadata = new Map([
    ['x-client', ['client']],
    ['x-both', ['client']],
  ])
  const client = openClient(t, port, { metadata })
  assert.equal(await client.unary(path, textCodec, ''), 'client client')
  const ofCall = { metadata: new Map([['x-both', ['call']]]) }
  assert.equal(await client.unary(path, textCodec, '', ofCall), 'client call')
})

test('unary: a time limit, a signal, an aborted signal, an answer that is too long, no server', async t => {
  const { client, server, port } = await start(t, [
    endless,
    texts.unary('/test.Test/Long', () => 'x'.repeat(1001)),
  ])
  const late = await failure(client.unary(path, textCodec, '', { timeoutMs: 20 }))
  assert.equal(late.code, statusCodes.DEADLINE_EXCEEDED)

  await waitFor('no call', () => server.activeCalls === 0)

  const hasty = new AbortController()
  const atOnce = failure(client.unary(path, textCodec, '', { signal: hasty.signal }))
  hasty.abort()
  assert.equal((await atOnce).code, statusCodes.CANCELLED)
  // When a later call is answered, the server has handled everything of the first call.
  assert.equal((await client.unary('/test.Test/Long', textCodec, '')).length, 1001)
  await waitFor('no call', () => server.activeCalls === 0)

  const abort = new AbortController()
  const cancelled = failure(client.unary(path, textCodec, '', { signal: abort.signal }))
  await waitFor('the call', () => server.activeCalls === 1)
  abort.abort()
  assert.equal((await cancelled).code, statusCodes.CANCELLED)
  const again = await failure(client.unary(path, textCodec, '', { signal: abort.signal }))
  assert.equal(again.code, statusCodes.CANCELLED)
  const stream = client.bidi(path, textCodec, { signal: abort.signal })
  await stream.write('')
  stream.end()
  const none = await failure(stream.messages[Symbol.asyncIterator]().next())
  assert.equal(none.code, statusCodes.CANCELLED)
  await waitFor('no call', () => server.activeCalls === 0)

  const modest = openClient(t, port, { maxReceiveBytes: 1000 })
  const long = await failure(modest.unary('/test.Test/Long', textCodec, ''))
  assert.equal(long.code, statusCodes.RESOURCE_EXHAUSTED)

  await server.drain(0)
  const nobody = await failure(client.unary(path, textCodec, ''))
  assert.equal(nobody.code, statusCodes.UNAVAILABLE)
})

test('an exception of a codec is the error of its call', async t => {
  const { client } = await start(t, [texts.unary(path, text => text)])
  const broken = () => {
    throw new Error('broken')
  }
  for (const codec of [
    { ...textCodec, encode: broken },
    { ...textCodec, decode: broken },
  ]) {
    assert.equal((await failure(client.unary(path, codec, 'text'))).code, statusCodes.INTERNAL)
  }
})

test('bidi: alternating messages, then an end; several answers to a caller that ends at once', async t => {
  const { client } = await start(t, [echoEach])
  const call = client.bidi(path, textCodec)
  const answers = call.messages[Symbol.asyncIterator]()
  for (const text of ['one', '', 'three']) {
    await call.write(text)
    assert.deepEqual(await answers.next(), { value: text, done: false })
  }
  call.end()
  assert.equal((await answers.next()).done, true)
  assert.throws(() => call.write('more'), /ended/)
})

test('bidi: the error of the server arrives after its messages, even for a late reader', async t => {
  const { client, server } = await start(t, [
    texts.bidi(path, async function* () {
      yield 'one'
      throw new GrpcError('ABORTED', 'enough')
    }),
  ])
  const call = client.bidi(path, textCodec)
  await call.write('')
  await waitFor('a call that is over', () => server.activeCalls === 0)
  const seen: string[] = []
  const error = await failure(
    (async () => {
      for await (const text of call.messages) seen.push(text)
    })(),
  )
  assert.deepEqual(seen, ['one'])
  assert.equal(error.code, statusCodes.ABORTED)
  assert.equal(error.message, 'enough')
})

test('bidi: fails when the server disconnects, and later writes resolve', async t => {
  const { port } = await start(t, [echoEach])
  const proxy = await openProxy(t, port)
  const client = openClient(t, proxy.port)
  const call = client.bidi(path, textCodec)
  call.write('hello')
  const answers = call.messages[Symbol.asyncIterator]()
  assert.equal((await answers.next()).value, 'hello')
  proxy.cut()
  assert.equal((await failure(answers.next())).code, statusCodes.UNAVAILABLE)
  await call.write('too late')
  call.end()
  const next = client.bidi(path, textCodec)
  next.write('again')
  for await (const text of next.messages) {
    assert.equal(text, 'again')
    break
  }
})

test('a silent connection is detected while a call runs, and replaced', async t => {
  const { port } = await start(t, [echoEach])
  const proxy = await openProxy(t, port)
  const client = openClient(t, proxy.port, { keepaliveMs: 50, keepaliveTimeoutMs: 2_000 })
  const call = client.bidi(path, textCodec)
  call.write('hello')
  const answers = call.messages[Symbol.asyncIterator]()
  assert.equal((await answers.next()).value, 'hello')
  const silent = failure(answers.next())
  const answered = proxy.answers()
  await waitFor('signs of life', () => proxy.answers() >= answered + 3)
  proxy.silence()
  assert.equal((await silent).code, statusCodes.UNAVAILABLE)
  const next = client.bidi(path, textCodec)
  next.write('again')
  for await (const text of next.messages) {
    assert.equal(text, 'again')
    break
  }
})

test('no pings by default, and pings at the configured interval', async t => {
  const { port, pings, opened } = await startPingCounter(t)
  t.mock.timers.enable({ apis: ['setTimeout'] })
  const hourMs = 3_600_000
  for (const keepaliveMs of [undefined, hourMs / 10]) {
    const client = openClient(t, port, { keepaliveMs })
    const before = { opened: opened(), pings: pings() }
    client.bidi(path, textCodec).write('hello')
    await waitByTurns('the call', () => opened() > before.opened)
    for (let ticks = 0; ticks < 10; ticks++) {
      t.mock.timers.tick(hourMs / 10)
      await waitByTurns('a ping', () => keepaliveMs === undefined || pings() > before.pings + ticks)
      // A ping that was sent in the tick has arrived when this answer arrives.
      await oneTrip(port)
    }
    assert.equal(pings() - before.pings, keepaliveMs === undefined ? 0 : 10)
  }
})

test('the kernel probes a connection that is idle', { skip: process.platform !== 'linux' }, async t => {
  const { port, client } = await start(t, [texts.unary(path, text => text)])
  await client.unary(path, textCodec, 'hello')
  await waitFor('the keepalive timer of the kernel', () => {
    const dueMs = keepaliveDueMs(port)
    return dueMs !== undefined && dueMs > 10_000 && dueMs <= 15_000
  })
})

test('an address that does not respond times out, and another one is tried', async t => {
  const { port } = await start(t, [texts.unary(path, text => text)])
  const sockets: Socket[] = []
  const way = createServer(socket => {
    sockets.push(socket)
    if (sockets.length === 1) socket.destroy()
    if (sockets.length > 2) socket.pipe(connect(port, '127.0.0.1')).pipe(socket)
  })
  t.after(() => {
    for (const socket of sockets) socket.destroy()
    way.close()
  })
  way.listen(0, '127.0.0.1')
  await once(way, 'listening')
  const client = openClient(t, (way.address() as AddressInfo).port, { connectTimeoutMs: 200 })
  assert.equal((await failure(client.unary(path, textCodec, 'lost'))).code, statusCodes.UNAVAILABLE)
  await waitFor('the address that is silent', () => sockets.length >= 2)
  await waitFor('the server to be reached', () =>
    client.unary(path, textCodec, 'hello').then(
      () => true,
      () => false,
    ),
  )
  assert.ok(sockets.length >= 3)
})

test('calls that wait for a server that says nothing fail with its address and the time', async t => {
  const silent = createServer(socket => t.after(() => socket.destroy())).listen(0, '127.0.0.1')
  t.after(() => silent.close())
  await once(silent, 'listening')
  const { port } = silent.address() as AddressInfo
  const client = openClient(t, port, { connectTimeoutMs: 200 })
  const messages = client.bidi(path, textCodec).messages[Symbol.asyncIterator]()
  for (const call of [client.unary(path, textCodec, 'lost'), messages.next()]) {
    const { code, message } = await failure(call)
    assert.equal(code, statusCodes.UNAVAILABLE)
    assert.equal(message, `no connection to 127.0.0.1:${port} within 200 ms`)
  }
})

test('bidi: leaving the loop, or the signal, cancels the call', async t => {
  const { client, server } = await start(t, [echoEach])
  const left = client.bidi(path, textCodec)
  left.write('one')
  for await (const _ of left.messages) break
  await waitFor('no call', () => server.activeCalls === 0)

  const abort = new AbortController()
  const cancelled = client.bidi(path, textCodec, { signal: abort.signal })
  const next = failure(cancelled.messages[Symbol.asyncIterator]().next())
  await waitFor('the call', () => server.activeCalls === 1)
  abort.abort()
  assert.equal((await next).code, statusCodes.CANCELLED)
  await waitFor('no call', () => server.activeCalls === 0)
})

test('bidi: a writer that waits is held by a slow server, until the call is over', async t => {
  const { client, server } = await start(t, [
    texts.bidi(path, async function* (_, { signal }) {
      await new Promise(resolve => signal.addEventListener('abort', resolve))
      yield 'never'
    }),
  ])
  const call = client.bidi(path, textCodec)
  let written = 0
  const writer = (async () => {
    for (; written < 300; written += 1) await call.write('x'.repeat(64 * 1024))
  })()
  const still = await waitUntilStill(() => written)
  assert.ok(still < 150, `${still} messages were written, of which none was read`)
  const error = failure(call.messages[Symbol.asyncIterator]().next())
  await server.drain(0)
  assert.equal((await error).code, statusCodes.UNAVAILABLE)
  await writer
})

test('a client connects over a unix socket', async t => {
  const folder = temporaryFolder('grpc')
  const server = createGrpcServer({ methods: [texts.unary(path, text => text)], onDefect: assert.fail })
  t.after(() => server.drain(0))
  const socketPath = join(folder, 'socket')
  await server.listen({ socketPath })
  const client = createGrpcClient(`unix:${socketPath}`)
  t.after(() => client.close())
  assert.equal(await client.unary(path, textCodec, 'hello'), 'hello')
})
