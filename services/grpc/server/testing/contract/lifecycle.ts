import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { temporaryFolder } from '../../../../../test/support/temporary-folder.ts'
import { statusCodes } from '../../../status.ts'
import { healthCheckPath, healthClientCodec, healthWatchPath, servingStatus } from '../../health.ts'
import {
  asBuffer,
  type CreateServer,
  openClient,
  openSession,
  openStream,
  request,
  startRig,
  texts,
  waitFor,
} from './support.ts'

/** Tests addresses, health, and the shutdown of a server. */
export function lifecycleContract(createServer: CreateServer): void {
  addressContract(createServer)
  socketFileContract(createServer)
  healthContract(createServer)
  drainContract(createServer)
}

const name = texts.unary('/test.Test/Name', text => text)

function addressContract(createServer: CreateServer): void {
  test('a port in use is EADDRINUSE, and the server may try another', async t => {
    const { port } = await startRig(t, createServer, [name])
    const other = await startRig(t, createServer, [name])
    await assert.rejects(other.server.listen({ host: '127.0.0.1', port }), { code: 'EADDRINUSE' })
    const bound = await other.server.listen({ host: '127.0.0.1', port: 0 })
    assert.ok('port' in bound && bound.port > 0 && bound.port !== port)
    const { status } = await request(openClient(t, `127.0.0.1:${bound.port}`), name.path)
    assert.equal(status.code, statusCodes.OK)
  })

  test('servers with reusePort share a port, and each gets connections', async t => {
    const servers = ['one', 'two'].map(whose =>
      createServer({ methods: [texts.unary(name.path, () => whose)], onDefect: assert.fail }),
    )
    let port = 0
    for (const server of servers) {
      t.after(() => server.drain(0))
      const bound = await server.listen({ host: '127.0.0.1', port, reusePort: true })
      assert.ok('port' in bound && (port === 0 || bound.port === port))
      port = bound.port
    }
    const answers = new Set<string>()
    // The kernel selects a server by a hash of the ports. That all 64 connections go to one server is as
    // likely as 64 equal coin tosses.
    for (let connection = 0; connection < 64 && answers.size < 2; connection += 1) {
      const { message } = await request(openClient(t, `127.0.0.1:${port}`), name.path)
      answers.add(Buffer.from(message ?? []).toString())
    }
    assert.deepEqual([...answers].sort(), ['one', 'two'])
  })
}

function socketFileContract(createServer: CreateServer): void {
  function start(t: TestContext) {
    const folder = temporaryFolder('grpc')
    const server = createServer({
      methods: [
        texts.unary('/test.Test/Peer', (_, call) => call.peer),
        texts.unary('/test.Test/Late', async text => {
          await new Promise(resolve => setImmediate(resolve))
          return text
        }),
      ],
      onDefect: assert.fail,
    })
    t.after(() => server.drain(0))
    return { server, socketPath: join(folder, 'socket') }
  }

  test('a unix socket serves, and its file is removed with the server', async t => {
    const { server, socketPath } = start(t)
    assert.deepEqual(await server.listen({ socketPath }), { socketPath })
    const { message } = await request(openClient(t, `unix:${socketPath}`), '/test.Test/Peer')
    assert.equal(Buffer.from(message ?? []).toString(), 'unix')
    await server.drain(0)
    assert.equal(existsSync(socketPath), false)
  })

  test('a drain of a unix socket under load answers each call that it has accepted', async t => {
    const { server, socketPath } = start(t)
    await server.listen({ socketPath })
    let answered = 0
    /** Makes calls one after the other until the server has closed. */
    async function callOn(client: ReturnType<typeof openClient>, caller: number): Promise<void> {
      for (let call = 0; ; call += 1) {
        const text = `call ${call} of ${caller}`
        const { status, message } = await request(client, '/test.Test/Late', text)
        if (status.code === statusCodes.UNAVAILABLE) return
        assert.equal(status.code, statusCodes.OK, status.details)
        assert.equal(Buffer.from(message ?? []).toString(), text)
        answered += 1
      }
    }
    const clients = Array.from({ length: 10 }, () => openClient(t, `unix:${socketPath}`))
    const callers = Array.from({ length: 200 }, (_, index) =>
      callOn(clients[index % clients.length] ?? assert.fail(), index),
    )
    await waitFor('answers', () => answered >= 1000)
    await server.drain(20_000)
    await Promise.all(callers)
    assert.equal(server.activeCalls, 0)
    assert.equal(existsSync(socketPath), false)
  })

  test('a socket file without a listener is replaced', async t => {
    const { server, socketPath } = start(t)
    const die = `process.kill(process.pid, 'SIGKILL')`
    const leave = `require('net').createServer().listen(process.argv[1], () => ${die})`
    spawnSync(process.execPath, ['-e', leave, socketPath])
    assert.equal(existsSync(socketPath), true, 'a killed process leaves its socket file')
    await server.listen({ socketPath })
    const { status } = await request(openClient(t, `unix:${socketPath}`), '/test.Test/Peer')
    assert.equal(status.code, statusCodes.OK)
  })

  test('a socket file with a listener, or another file, is EADDRINUSE', async t => {
    const first = start(t)
    await first.server.listen({ socketPath: first.socketPath })
    const { server, socketPath } = start(t)
    await assert.rejects(server.listen({ socketPath: first.socketPath }), { code: 'EADDRINUSE' })
    writeFileSync(socketPath, 'precious')
    await assert.rejects(server.listen({ socketPath }), { code: 'EADDRINUSE' })
    const { status } = await request(openClient(t, `unix:${first.socketPath}`), '/test.Test/Peer')
    assert.equal(status.code, statusCodes.OK)
  })
}

const healthRequest = (service: string) => asBuffer(healthClientCodec.encode({ service }))

function openWatch(client: ReturnType<typeof openClient>, service: string) {
  const watch = openStream(client, healthWatchPath)
  watch.stream.end(healthRequest(service))
  return {
    ...watch,
    next: async () => {
      const bytes = await watch.readBytes()
      return bytes && healthClientCodec.decode(bytes).status
    },
  }
}

function healthContract(createServer: CreateServer): void {
  test('health Check answers from the table, and with NOT_FOUND for other names', async t => {
    const { client, health } = await startRig(t, createServer, [])
    health.set('', true)
    health.set('sick', false)
    for (const [service, code, status] of [
      ['', statusCodes.OK, servingStatus.SERVING],
      ['sick', statusCodes.OK, servingStatus.NOT_SERVING],
      ['other', statusCodes.NOT_FOUND, undefined],
    ] as const) {
      const outcome = await request(client, healthCheckPath, healthRequest(service))
      assert.equal(outcome.status.code, code, service)
      assert.equal(outcome.message && healthClientCodec.decode(outcome.message).status, status)
    }
  })

  test('health Watch sends the current status, then each change, until the caller cancels', async t => {
    const { client, health, server } = await startRig(t, createServer, [])
    const watch = openWatch(client, 'service')
    assert.equal(await watch.next(), servingStatus.SERVICE_UNKNOWN)
    for (const serving of [true, false, true]) {
      health.set('other', serving)
      health.set('service', serving)
      assert.equal(await watch.next(), serving ? servingStatus.SERVING : servingStatus.NOT_SERVING)
    }
    assert.equal(server.activeCalls, 1)
    watch.stream.cancel()
    await waitFor('no call', () => server.activeCalls === 0)
  })
}

function drainContract(createServer: CreateServer): void {
  /** Creates a method whose calls run until the test releases them. */
  function createHeld() {
    const gate = Promise.withResolvers<void>()
    const held = texts.unary('/test.Test/Held', async text => {
      await gate.promise
      return text
    })
    return { held, release: gate.resolve }
  }

  test('drain: sends NOT_SERVING, rejects connections, lets running calls end, and closes', async t => {
    const { held, release } = createHeld()
    const { client, health, server, port } = await startRig(t, createServer, [held])
    health.set('', true)
    const session = await openSession(t, port)
    const watch = openWatch(client, '')
    assert.equal(await watch.next(), servingStatus.SERVING)
    const call = request(client, held.path, 'patient')
    await waitFor('both calls', () => server.activeCalls === 2)

    let drained = false
    const drain = server.drain(60_000).then(() => {
      drained = true
    })
    assert.equal(await watch.next(), servingStatus.NOT_SERVING)
    await waitFor('an idle connection to be closed', () => session.destroyed)
    const rejected = await request(openClient(t, `127.0.0.1:${port}`), held.path)
    assert.equal(rejected.status.code, statusCodes.UNAVAILABLE)
    assert.equal(drained, false)
    health.set('', true)
    assert.equal(health.get(''), false)

    release()
    assert.equal(Buffer.from((await call).message ?? []).toString(), 'patient')
    assert.equal((await watch.status).code, statusCodes.UNAVAILABLE)
    await drain
    assert.equal(server.activeCalls, 0)
    await assert.rejects(server.listen({ host: '127.0.0.1', port: 0 }))
  })

  test('drain: calls that still run after the grace period are aborted with UNAVAILABLE', async t => {
    const signals: AbortSignal[] = []
    const { client, server } = await startRig(t, createServer, [
      texts.unary('/test.Test/Endless', (_, call) => {
        signals.push(call.signal)
        return new Promise(resolve => call.signal.addEventListener('abort', () => resolve('')))
      }),
      texts.bidi('/test.Test/Talk', async function* (requests, call) {
        signals.push(call.signal)
        yield* requests
      }),
    ])
    const unary = request(client, '/test.Test/Endless')
    const bidi = openStream(client, '/test.Test/Talk')
    bidi.write('hello')
    assert.equal(await bidi.read(), 'hello')
    await waitFor('both calls', () => signals.length === 2)
    await server.drain(20)
    assert.equal((await unary).status.code, statusCodes.UNAVAILABLE)
    assert.equal((await bidi.status).code, statusCodes.UNAVAILABLE)
    assert.ok(signals.every(signal => signal.aborted))
    assert.equal(server.activeCalls, 0)
  })

  test('drain: a caller that does not read is disconnected too', async t => {
    const { client, server } = await startRig(t, createServer, [
      texts.serverStream('/test.Test/Flood', async function* () {
        for (;;) yield 'x'.repeat(64 * 1024)
      }),
    ])
    const { stream, read } = openStream(client, '/test.Test/Flood')
    stream.end(Buffer.alloc(0))
    await read()
    await server.drain(20)
    await waitFor('no call', () => server.activeCalls === 0)
  })

  test('drain twice: both resolve, and the shorter grace period applies', async t => {
    const { held } = createHeld()
    const { client, server } = await startRig(t, createServer, [held])
    const call = request(client, held.path)
    await waitFor('the call', () => server.activeCalls === 1)
    const drains = [server.drain(60_000), server.drain(20)]
    await Promise.all(drains)
    assert.equal((await call).status.code, statusCodes.UNAVAILABLE)
    await server.drain(60_000)
  })

  test('drain of a server that never listened resolves', async () => {
    await createServer({ methods: [], onDefect: assert.fail }).drain(60_000)
  })
}
