import assert from 'node:assert/strict'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { Method } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import { waitFor } from '../../support/wait-for.ts'
import { type FaultLoad, type FaultLoadOptions, withFaultLoad } from './fault-load.ts'

const okBytes = Buffer.from([8, 1])
const overBytes = Buffer.from([8, 2])

/** Answers by the request's text: `ok`, `over`, `error`; `never` gets no answer. */
const shouldRateLimit: Method<string, Uint8Array> = {
  path: '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit',
  kind: 'unary',
  decode: bytes => Buffer.from(bytes).toString(),
  encode: bytes => bytes,
  async handle(text) {
    if (text === 'error') throw new GrpcError('UNKNOWN', 'the backend – away')
    if (text === 'never') await new Promise(() => {})
    return text === 'ok' ? okBytes : overBytes
  },
}

async function startServer(t: TestContext) {
  const server = createGrpcServer({
    methods: [shouldRateLimit],
    onDefect: (_, error) => assert.fail(String(error)),
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  t.after(() => server.drain(0))
  return { server, port: bound.port }
}

function withLoad(
  ports: readonly number[],
  texts: readonly string[],
  use: (load: FaultLoad) => Promise<void>,
  more: Partial<FaultLoadOptions> = {},
): Promise<void> {
  const messages = texts.map(text => {
    const message = Buffer.alloc(5 + text.length)
    message.writeUInt32BE(text.length, 1)
    message.write(text, 5)
    return message
  })
  const bodyOf = (call: number) => messages[call % messages.length] ?? Buffer.alloc(0)
  return withFaultLoad({ ports, connections: 4, callsPerSecond: 1_000, bodyOf, ...more }, use)
}

test('each call ends once, with its decision or the status and its message', async t => {
  const { port } = await startServer(t)
  await withLoad([port], ['ok', 'over', 'error'], async load => {
    await waitFor('errors', () => (load.outcomes().get('2 the backend – away') ?? 0) >= 20)
    const { sent, calls } = await load.stop()
    assert.equal(calls.length, sent)
    for (const { call, outcome, latencyMs } of calls) {
      assert.equal(outcome, ['OK', 'OVER_LIMIT', '2 the backend – away'][call % 3])
      assert.ok(latencyMs >= 0)
    }
  })
})

test('callers cancel after their timeout', async t => {
  const { port } = await startServer(t)
  const patience = { cancelAfterMs: 100 }
  await withLoad(
    [port],
    ['ok', 'never'],
    async load => {
      await waitFor('cancelled calls', () => (load.outcomes().get('cancelled') ?? 0) >= 20)
      const { calls } = await load.stop()
      assert.ok(calls.some(({ outcome }) => outcome === 'OK'))
      for (const { call, outcome, latencyMs } of calls) {
        // After a pause of the machine, an answer may be late.
        const mayBeLate = call % 2 === 1 || latencyMs >= patience.cancelAfterMs
        assert.ok(outcome === 'cancelled' ? mayBeLate : call % 2 === 0 && outcome === 'OK', outcome)
      }
      assert.equal(load.goAways, 0)
    },
    patience,
  )
})

test('callers continue at another port after GOAWAY, and no call fails', async t => {
  const [one, other] = [await startServer(t), await startServer(t)]
  await withLoad([one.port, other.port], ['ok'], async load => {
    await waitFor('answers', () => (load.outcomes().get('OK') ?? 0) >= 20)
    await one.server.drain(1_000)
    const before = load.outcomes().get('OK') ?? 0
    await waitFor('more answers', () => (load.outcomes().get('OK') ?? 0) >= before + 20)
    const { sent, calls } = await load.stop()
    assert.equal(load.goAways, 2)
    assert.equal(load.lostConnections, 0)
    assert.equal(calls.filter(({ outcome }) => outcome === 'OK').length, sent)
  })
})

test('calls on a lost connection are lost, and later ones use another port', async t => {
  const sockets: Socket[] = []
  /** It accepts connections by empty SETTINGS, and answers no call. */
  const mute = createServer(socket => {
    sockets.push(socket.on('error', () => {}))
    socket.write(Buffer.of(0, 0, 0, 4, 0, 0, 0, 0, 0))
  })
  await new Promise<void>(resolve => mute.listen(0, '127.0.0.1', resolve))
  const { port } = await startServer(t)
  await withLoad([(mute.address() as AddressInfo).port, port], ['ok'], async load => {
    await waitFor('calls in flight', () => load.inFlight() >= 20)
    mute.close()
    for (const socket of sockets) socket.destroy()
    await waitFor('the loss', () => load.lostConnections === 2)
    const lost = load.outcomes().get('lost') ?? 0
    // After a pause of the machine, some calls in flight may be at the server that answers.
    assert.ok(lost > 0)
    const { sent, calls } = await load.stop()
    assert.equal(calls.filter(({ outcome }) => outcome === 'OK').length, sent - lost)
  })
})

test('a connection that gets GOAWAY together with SETTINGS has no calls, and none is lost', async t => {
  /** It accepts connections while it shuts down: it sends SETTINGS and GOAWAY at once, and closes. */
  const leaving = createServer(socket => {
    socket.on('error', () => {}).resume()
    socket.end(Buffer.of(0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0))
  })
  await new Promise<void>(resolve => leaving.listen(0, '127.0.0.1', resolve))
  t.after(() => leaving.close())
  const leavingPort = (leaving.address() as AddressInfo).port
  const [one, other] = [await startServer(t), await startServer(t)]
  await withLoad(
    [one.port, leavingPort, other.port],
    ['ok'],
    async load => {
      await waitFor('answers', () => (load.outcomes().get('OK') ?? 0) >= 20)
      await one.server.drain(1_000)
      const before = load.outcomes().get('OK') ?? 0
      await waitFor('more answers', () => (load.outcomes().get('OK') ?? 0) >= before + 20)
      const { sent, calls } = await load.stop()
      assert.equal(load.lostConnections, 0)
      assert.equal(calls.filter(({ outcome }) => outcome === 'OK').length, sent)
    },
    { connections: 1 },
  )
})
