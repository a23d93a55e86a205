import assert from 'node:assert/strict'
import type { OutgoingHttpHeaders } from 'node:http2'
import { describe, test } from 'node:test'
import { gzipSync } from 'node:zlib'
import { Client, compressionAlgorithms, credentials } from '@grpc/grpc-js'
import fc from 'fast-check'
import type { AnyMethod, Metadata } from '../server.ts'
import { statusCodes } from '../status.ts'
import { createGrpcServer } from './create-server.ts'
import {
  bytesCodec,
  frame,
  grpcHeaders,
  openSession,
  rawRequest,
  startRig,
  texts,
} from './testing/contract/support.ts'
import { serverContract } from './testing/server.contract.ts'

serverContract('socket server', createGrpcServer)

const echo: AnyMethod = { ...bytesCodec, path: '/test.Test/Echo', kind: 'unary', handle: bytes => bytes }
const echoEach: AnyMethod = {
  ...bytesCodec,
  path: '/test.Test/EchoEach',
  kind: 'bidi',
  handle: messages => messages,
}

/** Fields of the answer's headers and trailers. */
type Expected = Readonly<Record<string, string | number>>

function gzipped(text: string): Buffer {
  const bytes = frame(gzipSync(text))
  bytes.writeUInt8(1, 0)
  return bytes
}

describe('callers that compress with gzip', () => {
  for (const method of [echo, echoEach]) {
    test(`reach a method of the kind ${method.kind}`, async t => {
      const { port } = await startRig(t, createGrpcServer, [method])
      const client = new Client(`127.0.0.1:${port}`, credentials.createInsecure(), {
        'grpc.default_compression_algorithm': compressionAlgorithms.gzip,
      })
      t.after(() => client.close())
      const same = (bytes: Buffer) => bytes
      const call = client.makeBidiStreamRequest(method.path, same, same)
      const sent = ['a'.repeat(100_000), '', 'b'].slice(0, method.kind === 'unary' ? 1 : 3)
      for (const text of sent) call.write(Buffer.from(text))
      call.end()
      const received: string[] = []
      for await (const bytes of call) received.push(String(bytes))
      assert.deepEqual(received, sent)
    })
  }
})

describe('requests that are unlike those of gRPC libraries', () => {
  const compressed = frame('text')
  compressed.writeUInt8(1, 0)
  const unknownFlag = frame('text')
  unknownFlag.writeUInt8(2, 0)

  const cases: readonly [string, OutgoingHttpHeaders, readonly Uint8Array[], Expected][] = [
    ['another method than POST', { ':method': 'GET' }, [], { ':status': 405, allow: 'POST' }],
    ['another content-type', { 'content-type': 'application/json' }, [], { ':status': 415 }],
    ['no content-type', { 'content-type': undefined }, [frame('text')], { ':status': 415 }],
    [
      'a content-type with only the same prefix',
      { 'content-type': 'application/grpc-web' },
      [],
      { ':status': 415 },
    ],
    [
      'a subtype',
      { 'content-type': 'application/grpc+proto' },
      [frame('')],
      { ':status': 200, 'grpc-status': '0' },
    ],
    [
      'a timeout without a unit',
      { 'grpc-timeout': '20' },
      [frame('')],
      { ':status': 200, 'grpc-status': '13' },
    ],
    ['a timeout of nine digits', { 'grpc-timeout': '123456789n' }, [frame('')], { 'grpc-status': '13' }],
    [
      'a message of an encoding that is not supported',
      { 'grpc-encoding': 'snappy' },
      [compressed],
      { 'grpc-status': '12', 'grpc-accept-encoding': 'identity,gzip' },
    ],
    [
      'a message that is not gzip as declared',
      { 'grpc-encoding': 'gzip' },
      [compressed],
      { 'grpc-status': '13' },
    ],
    [
      'a message of gzip',
      { 'grpc-encoding': 'gzip' },
      [gzipped('text')],
      { 'grpc-status': '0', 'grpc-accept-encoding': 'identity,gzip' },
    ],
    [
      'a message of gzip that is too long after decompression',
      { 'grpc-encoding': 'gzip' },
      [gzipped('x'.repeat(5 * 1024 * 1024))],
      { 'grpc-status': '8' },
    ],
    [
      'gzip as the encoding of a message that is not compressed',
      { 'grpc-encoding': 'gzip' },
      [frame('')],
      { 'grpc-status': '0' },
    ],
    ['a compressed message without an encoding', {}, [compressed], { 'grpc-status': '13' }],
    ['an unknown flag', {}, [unknownFlag], { 'grpc-status': '13' }],
  ]
  for (const [what, headers, chunks, expected] of cases) {
    test(`a request with ${what} is answered as gRPC says`, async t => {
      const { port, server } = await startRig(t, createGrpcServer, [echo])
      const session = await openSession(t, port)
      const { trailers } = await rawRequest(session, { ...grpcHeaders(echo.path), ...headers }, chunks)
      for (const [name, value] of Object.entries(expected)) assert.equal(trailers[name], value, name)
      assert.equal(server.activeCalls, 0)
    })
  }

  test('a truncated message is UNIMPLEMENTED or INTERNAL, and never hangs', async t => {
    const { port } = await startRig(t, createGrpcServer, [echo, echoEach])
    const session = await openSession(t, port)
    for (const [path, code] of [
      [echo.path, statusCodes.UNIMPLEMENTED],
      [echoEach.path, statusCodes.INTERNAL],
    ] as const) {
      const { trailers } = await rawRequest(session, grpcHeaders(path), [frame('hello').subarray(0, 7)])
      assert.equal(trailers['grpc-status'], String(code), path)
    }
  })

  test('a duplicate path is rejected when the server is created', () => {
    assert.throws(
      () => createGrpcServer({ methods: [echo, echo], onDefect: assert.fail }),
      /Echo occurs twice/,
    )
  })
})

describe('a call whose handler reads late', () => {
  test('a signal that is first read after the deadline is aborted', async t => {
    const gate = Promise.withResolvers<void>()
    const seen = Promise.withResolvers<AbortSignal>()
    const { port } = await startRig(t, createGrpcServer, [
      texts.unary('/test.Test/Late', async (text, call) => {
        await gate.promise
        seen.resolve(call.signal)
        return text
      }),
    ])
    const session = await openSession(t, port)
    const headers = { ...grpcHeaders('/test.Test/Late'), 'grpc-timeout': '10m' }
    const { trailers } = await rawRequest(session, headers, [frame('')])
    assert.equal(trailers['grpc-status'], String(statusCodes.DEADLINE_EXCEEDED))
    gate.resolve()
    const signal = await seen.promise
    assert.equal(signal.reason.code, statusCodes.DEADLINE_EXCEEDED)
  })

  test('an incomplete request is aborted at the deadline', async t => {
    const { port, server } = await startRig(t, createGrpcServer, [echo])
    const session = await openSession(t, port)
    const stream = session.request({ ...grpcHeaders(echo.path), 'grpc-timeout': '20m' })
    const status = new Promise(resolve => stream.once('response', headers => resolve(headers['grpc-status'])))
    stream.write(frame('half').subarray(0, 6))
    assert.equal(await status, String(statusCodes.DEADLINE_EXCEEDED))
    assert.equal(server.activeCalls, 0)
  })
})

describe("metadata as Node's encoder compresses it", () => {
  test('any metadata of any calls on one connection reaches the handler unchanged', async t => {
    let seen: Metadata = new Map()
    const { port } = await startRig(t, createGrpcServer, [
      texts.unary('/test.Test/Look', (text, call) => {
        seen = call.metadata
        return text
      }),
    ])
    const session = await openSession(t, port)
    const name = fc.constantFrom('x-a', 'x-b', 'user-agent', 'x-some-longer-name', 'authorization', 'accept')
    const character = fc.integer({ min: 0x21, max: 0x7e }).map(code => String.fromCharCode(code))
    const value = fc.oneof(
      fc.constantFrom('same', 'trailers', 'x'.repeat(3000)),
      fc.string({ unit: character, minLength: 1, maxLength: 60 }),
    )
    await fc.assert(
      fc.asyncProperty(fc.dictionary(name, value), async metadata => {
        const sent = { ...metadata }
        const headers = { ...grpcHeaders('/test.Test/Look'), ...sent }
        const { trailers } = await rawRequest(session, headers, [frame('')])
        assert.equal(trailers['grpc-status'], '0')
        assert.deepEqual(new Map(seen), new Map(Object.entries(sent).map(([key, text]) => [key, [text]])))
      }),
      { numRuns: 300, seed: 7541 },
    )
  })
})
