import assert from 'node:assert/strict'
import { connect } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Metadata as GrpcJsMetadata } from '@grpc/grpc-js'
import { statusCodes } from '../../../status.ts'
import {
  type CreateServer,
  frame,
  grpcHeaders,
  openSession,
  openStream,
  rawRequest,
  request,
  startRig,
  texts,
  waitFor,
} from './support.ts'

/** Tests every limit of `GrpcLimits`: a call that exceeds it is answered. */
export function limitContract(createServer: CreateServer): void {
  sizeContract(createServer)
  concurrencyContract(createServer)
  connectionAgeContract(createServer)
}

const echo = texts.unary('/test.Test/Echo', text => text)
const echoEach = texts.bidi('/test.Test/EchoEach', requests => requests)

function sizeContract(createServer: CreateServer): void {
  test('a message longer than maxReceiveBytes is RESOURCE_EXHAUSTED', async t => {
    const { client, server } = await startRig(t, createServer, [echo, echoEach], { maxReceiveBytes: 1000 })
    assert.equal((await request(client, echo.path, 'x'.repeat(1000))).status.code, statusCodes.OK)
    const rejected = await request(client, echo.path, 'x'.repeat(1001))
    assert.equal(rejected.status.code, statusCodes.RESOURCE_EXHAUSTED)
    const { write, read, status } = openStream(client, echoEach.path)
    write('x'.repeat(1000))
    assert.equal((await read())?.length, 1000)
    write('x'.repeat(1001))
    assert.equal((await status).code, statusCodes.RESOURCE_EXHAUSTED)
    await waitFor('no call', () => server.activeCalls === 0)
  })

  test('a length above the limit is rejected before the message has arrived', async t => {
    const { port } = await startRig(t, createServer, [echo], { maxReceiveBytes: 1000 })
    const session = await openSession(t, port)
    const { trailers } = await rawRequest(session, grpcHeaders(echo.path), [
      frame('x'.repeat(2000)).subarray(0, 5),
    ])
    assert.equal(trailers['grpc-status'], String(statusCodes.RESOURCE_EXHAUSTED))
  })

  test('an answer longer than maxSendBytes is RESOURCE_EXHAUSTED', async t => {
    const { client, server, defects } = await startRig(t, createServer, [echo, echoEach], {
      maxSendBytes: 1000,
    })
    assert.equal((await request(client, echo.path, 'x'.repeat(1000))).status.code, statusCodes.OK)
    const rejected = await request(client, echo.path, 'x'.repeat(1001))
    assert.equal(rejected.status.code, statusCodes.RESOURCE_EXHAUSTED)
    assert.match(rejected.status.details, /1001.*1000/)
    const { write, readAll, status } = openStream(client, echoEach.path)
    write('short')
    write('x'.repeat(1001))
    assert.deepEqual(await readAll(), ['short'])
    assert.equal((await status).code, statusCodes.RESOURCE_EXHAUSTED)
    await waitFor('no call', () => server.activeCalls === 0)
    assert.deepEqual(defects, [])
  })

  for (const [name, count, bytes] of [
    ['one long value', 1, 5_000],
    ['many short values', 100, 10],
  ] as const) {
    test(`metadata longer than maxMetadataBytes is RESOURCE_EXHAUSTED: ${name}`, async t => {
      const { client, server } = await startRig(t, createServer, [echo], { maxMetadataBytes: 4096 })
      const metadata = new GrpcJsMetadata()
      for (let index = 0; index < count; index += 1) metadata.set(`x-${index}`, 'x'.repeat(bytes))
      const { status } = await request(client, echo.path, '', { metadata })
      assert.equal(status.code, statusCodes.RESOURCE_EXHAUSTED)
      assert.equal((await request(client, echo.path)).status.code, statusCodes.OK, 'the next call')
      assert.equal(server.activeCalls, 0)
    })
  }

  test('metadata that is longer than any server accepts fails, and the next call succeeds', async t => {
    const { client, server } = await startRig(t, createServer, [echo])
    const metadata = new GrpcJsMetadata()
    metadata.set('x-long', 'x'.repeat(200_000))
    assert.notEqual((await request(client, echo.path, '', { metadata })).status.code, statusCodes.OK)
    await waitFor('no call', () => server.activeCalls === 0)
    metadata.set('x-long', 'short')
    const next = await request(client, echo.path, '', { metadata })
    assert.equal(next.status.code, statusCodes.OK)
  })

  test('bytes that are not HTTP/2 end only their connection', async t => {
    const { client, port } = await startRig(t, createServer, [echo])
    const socket = connect(port, '127.0.0.1')
    const closed = new Promise(resolve => socket.once('close', resolve).on('error', () => {}))
    socket.resume().write('GET / HTTP/1.1\r\nhost: here\r\n\r\n')
    await closed
    assert.equal((await request(client, echo.path)).status.code, statusCodes.OK)
  })
}

function concurrencyContract(createServer: CreateServer): void {
  test('1,000 calls at once on one connection: all succeed, maxConcurrentStreams at a time', async t => {
    const maxConcurrentStreams = 50
    let most = 0
    const { client, server } = await startRig(
      t,
      createServer,
      [
        texts.unary('/test.Test/Count', async text => {
          most = Math.max(most, server.activeCalls)
          await new Promise(resolve => setImmediate(resolve))
          return text
        }),
      ],
      { maxConcurrentStreams },
    )
    // The client knows the server's limit only after it has received SETTINGS.
    await request(client, '/test.Test/Count')
    const bodies = Array.from({ length: 1000 }, (_, index) => String(index))
    const outcomes = await Promise.all(bodies.map(body => request(client, '/test.Test/Count', body)))
    assert.deepEqual(
      outcomes.map(({ message }) => Buffer.from(message ?? []).toString()),
      bodies,
    )
    assert.ok(most > 1 && most <= maxConcurrentStreams, `${most} calls ran at once`)
    await waitFor('no call', () => server.activeCalls === 0)
  })
}

function connectionAgeContract(createServer: CreateServer): void {
  /**
   * Begins a call. Resolves with undefined if the connection reached its age before the call, as on a busy
   * machine.
   */
  async function beginCall(t: TestContext, port: number) {
    const session = await openSession(t, port)
    let code: number | undefined
    session.once('goaway', errorCode => {
      code = errorCode
    })
    const stream = session.request(grpcHeaders(echoEach.path)).on('error', () => {})
    let body = ''
    stream.on('data', (chunk: Buffer) => {
      body += chunk.subarray(5)
    })
    stream.write(frame('begun'))
    await waitFor('an answer, or a rejection', () => body === 'begun' || stream.destroyed)
    return body === 'begun' ? { session, stream, code: () => code, body: () => body } : undefined
  }

  test('an old connection is drained, its running call ends, a new connection is accepted', async t => {
    const { port } = await startRig(t, createServer, [echoEach], { maxConnectionAgeMs: 50 })
    let call: Awaited<ReturnType<typeof beginCall>>
    await waitFor('a call that began in time', async () => {
      call = await beginCall(t, port)
      return call !== undefined
    })
    assert.ok(call)
    const { session, stream, code, body } = call
    await waitFor('a GOAWAY', () => code() !== undefined)
    assert.equal(code(), 0, 'no error')
    stream.write(frame(', still here'))
    await waitFor('an answer', () => body() === 'begun, still here')
    stream.end()
    await waitFor('a closed session', () => session.destroyed)
    await waitFor('a call on a new connection', async () => (await beginCall(t, port)) !== undefined)
  })

  test('a call that exceeds maxConnectionAgeGraceMs is aborted', async t => {
    const limits = { maxConnectionAgeMs: 20, maxConnectionAgeGraceMs: 30 }
    const { client, server } = await startRig(t, createServer, [echoEach], limits)
    const { write, status } = openStream(client, echoEach.path)
    write('')
    assert.notEqual((await status).code, statusCodes.OK)
    await waitFor('no call', () => server.activeCalls === 0)
  })
}
