import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { Client, compressionAlgorithms, credentials } from '@grpc/grpc-js'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createGrpcClient } from '../client/client.ts'
import { createGrpcServer } from '../server/create-server.ts'
import type { Method } from '../server.ts'
import { GrpcError, statusName } from '../status.ts'
import { CallTap, type Direction, TapMemory, type TappedCall } from './call-tap.ts'

const path = '/test.Echo/Echo'
const codec = {
  decode: (bytes: Uint8Array) => `${Buffer.from(bytes)}`,
  encode: (text: string) => Buffer.from(text),
}
const echo: Method<string, string> = {
  ...codec,
  path,
  kind: 'unary',
  handle(text, call) {
    if (text === 'error') throw new GrpcError('NOT_FOUND', 'nothing here')
    if (text !== 'wait') return `${text}!`
    const { promise, reject } = Promise.withResolvers<string>()
    call.signal.addEventListener('abort', () => reject(call.signal.reason))
    return promise
  },
}

const mebi = 1024 * 1024

/**
 * Starts a server, and a client that is connected through a tap. The tap gets the bytes in pieces of
 * `pieceBytes`.
 */
async function startTapped(t: TestContext, pieceBytes: number, memory = new TapMemory(16 * mebi)) {
  const server = createGrpcServer({
    methods: [echo, { ...echo, path: '/test.Echo/Other' }],
    onDefect: assert.fail,
  })
  const address = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in address)
  const calls: TappedCall[] = []
  let skipped = 0
  const options: ConstructorParameters<typeof CallTap>[0] = {
    path,
    memory,
    onCall: call => calls.push(call),
    onSkipped: () => (skipped += 1),
  }
  const relay = createServer(caller => {
    const tap = new CallTap(options)
    const upstream = connect(address.port)
    const pass = (from: Socket, to: Socket, direction: Direction) => {
      from.on('data', chunk => {
        to.write(chunk)
        for (let at = 0; at < chunk.length; at += pieceBytes)
          tap.read(direction, Buffer.from(chunk.subarray(at, at + pieceBytes)), 0)
      })
      from.once('close', () => to.destroy())
      from.on('error', () => {})
    }
    pass(caller, upstream, 'request')
    pass(upstream, caller, 'answer')
    caller.once('close', () => tap.end(0))
  })
  relay.listen(0, '127.0.0.1')
  await once(relay, 'listening')
  const { port } = relay.address() as AddressInfo
  const client = createGrpcClient(`127.0.0.1:${port}`)
  t.after(async () => {
    client.close()
    relay.close()
    await server.drain(0)
  })
  const ask = (text: string, ms = 10_000, of = path) => client.unary(of, codec, text, { timeoutMs: ms })
  const seen = () =>
    calls.map(({ request, outcome }) => [
      `${Buffer.from(request)}`.slice(0, 5),
      'answer' in outcome ? outcome.answer.length : statusName(outcome.error.code),
    ])
  return { ask, seen, skipped: () => skipped, port }
}

for (const pieceBytes of [1, 7, 65_536]) {
  test(`a tap reads the calls of one method from pieces of ${pieceBytes} bytes`, async t => {
    const { ask, seen } = await startTapped(t, pieceBytes)
    await ask('one')
    await ask('other', 10_000, '/test.Echo/Other')
    await ask('x'.repeat(100_000))
    await assert.rejects(ask('error'), { message: /nothing here/ })
    await assert.rejects(ask('wait', 200))
    await Promise.all(Array.from({ length: 50 }, (_, call) => ask(`n${call}`)))
    await waitFor('the calls', () => seen().length >= 54)
    const [cancelled] = seen().filter(([request]) => request === 'wait')
    assert.ok(['CANCELLED', 'DEADLINE_EXCEEDED'].includes(`${cancelled?.[1]}`), `${cancelled}`)
    const expected = [
      ['one', 4],
      ['xxxxx', 100_001],
      ['error', 'NOT_FOUND'],
    ]
    assert.deepEqual(seen().slice(0, 3), expected)
    const last = Array.from({ length: 50 }, (_, call) => [`n${call}`, `n${call}!`.length])
    assert.deepEqual(new Set(seen().slice(4).map(String)), new Set(last.map(String)))
  })
}

test('a tap reports calls without an answer at the end, and rejects bytes that are not HTTP/2', () => {
  const none = () => assert.fail()
  const tap = new CallTap({ path, memory: new TapMemory(mebi), onCall: none, onSkipped: none })
  assert.throws(() => tap.read('request', Buffer.from('GET / HTTP/1.1\r\n\r\n'), 0), /preface/)
  tap.end(0)
})

test('a call that exceeds the memory of its tap is skipped, and its memory is released', async t => {
  const { ask, seen, skipped } = await startTapped(t, 65_536, new TapMemory(mebi))
  await ask('x'.repeat(2 * mebi))
  for (let call = 0; call < 20; call++) await ask('y'.repeat(400_000))
  await assert.rejects(ask('error'))
  await Promise.all(Array.from({ length: 20 }, () => ask('z'.repeat(200_000))))
  await waitFor('the calls', () => seen().length + skipped() === 42)
  assert.ok(skipped() > 1, 'twenty calls at once have no room')
  await ask('last')
  await waitFor('the last call', () => seen().at(-1)?.[0] === 'last')
  assert.equal(seen().filter(([request]) => request === 'yyyyy').length, 20)
})

test('a call with a compressed message is skipped', async t => {
  const { skipped, seen, port } = await startTapped(t, 65_536)
  const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
    'grpc.default_compression_algorithm': compressionAlgorithms.gzip,
  })
  t.after(() => client.close())
  const answer = await new Promise((resolve, reject) => {
    const onAnswer = (error: Error | null, text?: string) => (error ? reject(error) : resolve(text))
    client.makeUnaryRequest(path, codec.encode, codec.decode, 'one', onAnswer)
  })
  assert.equal(answer, 'one!')
  await waitFor('the call', () => skipped() === 1)
  assert.deepEqual(seen(), [])
})
