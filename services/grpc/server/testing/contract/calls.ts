import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Metadata as GrpcJsMetadata } from '@grpc/grpc-js'
import type { AnyMethod, Metadata } from '../../../server.ts'
import { GrpcError, statusCodes } from '../../../status.ts'
import {
  bytesCodec,
  type CreateServer,
  frame,
  grpcHeaders,
  openSession,
  openStream,
  rawRequest,
  request,
  startRig,
  textCodec,
  texts,
  withoutPings,
} from './support.ts'

/** Tests messages, metadata and statuses of calls that run to their end. */
export function callContract(createServer: CreateServer): void {
  messageContract(createServer)
  metadataContract(createServer)
  statusContract(createServer)
  wireContract(createServer)
}

const echo: AnyMethod = { ...bytesCodec, path: '/test.Test/Echo', kind: 'unary', handle: bytes => bytes }
const echoEach: AnyMethod = {
  ...bytesCodec,
  path: '/test.Test/EchoEach',
  kind: 'bidi',
  handle: messages => messages,
}

function messageContract(createServer: CreateServer): void {
  for (const [name, size] of [
    ['empty', 0],
    ['40 KB', 40_000],
    ['1 MB', 1_000_000],
  ] as const) {
    test(`${name} messages go there and back byte for byte`, async t => {
      const { client } = await startRig(t, withoutPings(createServer), [echo, echoEach])
      const body = Uint8Array.from({ length: size }, (_, index) => (index * 31) % 256)
      const { message } = await request(client, echo.path, body)
      assert.ok(message && Buffer.compare(message, body) === 0, 'unary')
      const { stream, readBytes } = openStream(client, echoEach.path)
      for (let round = 0; round < 3; round += 1) {
        stream.write(Buffer.from(body))
        const answer = await readBytes()
        assert.ok(answer && Buffer.compare(answer, body) === 0, `bidi, message ${round}`)
      }
      stream.end()
      assert.equal(await readBytes(), undefined)
    })
  }

  test('an answer in parts has the bytes of the whole, and may not exceed the limit', async t => {
    const cutAnywhere = (bytes: Uint8Array) => [bytes.subarray(0, 3), bytes.subarray(3, 3), bytes.subarray(3)]
    const unused = () => assert.fail('encode is not called')
    const inParts: AnyMethod = { ...echoEach, encode: unused, encodeParts: cutAnywhere }
    const limits = { maxSendBytes: 300_000 }
    const { client } = await startRig(t, createServer, [inParts], limits)
    const { stream, readBytes, status } = openStream(client, inParts.path)
    for (const size of [0, 2, 3, 20_000, 300_000]) {
      const body = Buffer.from(Uint8Array.from({ length: size }, (_, index) => (index * 31) % 256))
      stream.write(body)
      assert.deepEqual(await readBytes(), body, `${size} bytes`)
    }
    stream.write(Buffer.alloc(300_001))
    assert.equal((await status).code, statusCodes.RESOURCE_EXHAUSTED)
  })

  test('a unary handler answers synchronously or asynchronously', async t => {
    const { client, server } = await startRig(t, createServer, [
      texts.unary('/test.Test/Now', text => `${text} now`),
      texts.unary('/test.Test/Later', async text => `${text} later`),
    ])
    for (const when of ['Now', 'Later']) {
      const { message, status } = await request(client, `/test.Test/${when}`, 'hello')
      assert.equal(Buffer.from(message ?? []).toString(), `hello ${when.toLowerCase()}`)
      assert.equal(status.code, statusCodes.OK)
    }
    assert.equal(server.activeCalls, 0)
  })

  test('client-stream: many requests, one answer', async t => {
    const { client } = await startRig(t, createServer, [
      texts.clientStream('/test.Test/Join', async requests => (await collect(requests)).join(' ')),
    ])
    const { stream, write, readAll, status } = openStream(client, '/test.Test/Join')
    for (const word of ['one', 'two', '', 'three']) write(word)
    stream.end()
    assert.deepEqual(await readAll(), ['one two  three'])
    assert.equal((await status).code, statusCodes.OK)
  })

  test('server-stream: one request, many answers or none', async t => {
    const { client } = await startRig(t, createServer, [
      texts.serverStream('/test.Test/Split', async function* (text) {
        if (text !== '') yield* text.split(' ')
      }),
    ])
    for (const [text, words] of [
      ['one two three', ['one', 'two', 'three']],
      ['', []],
    ] as const) {
      const { stream, write, readAll, status } = openStream(client, '/test.Test/Split')
      write(text)
      stream.end()
      assert.deepEqual(await readAll(), words)
      assert.equal((await status).code, statusCodes.OK)
    }
  })
}

function metadataContract(createServer: CreateServer): void {
  test('metadata reaches the handler: lower case, bytes, repeated names in order', async t => {
    let seen: Metadata = new Map()
    const { client } = await startRig(t, createServer, [
      texts.unary('/test.Test/Look', (_, call) => {
        seen = call.metadata
        return call.peer
      }),
    ])
    const metadata = new GrpcJsMetadata()
    metadata.add('X-Name', 'one')
    metadata.add('x-name', 'two')
    metadata.add('x-bytes-bin', Buffer.from([0, 255, 128]))
    metadata.add('x-bytes-bin', Buffer.from([7]))
    const { message } = await request(client, '/test.Test/Look', '', { metadata })
    assert.deepEqual(textsOf(seen, 'x-name'), ['one', 'two'])
    assert.deepEqual(seen.get('x-bytes-bin')?.map(bytesOf), [[0, 255, 128], [7]])
    for (const name of [':path', 'content-type', 'te', 'grpc-timeout', 'grpc-encoding']) {
      assert.equal(seen.has(name), false, `${name} belongs to the transport`)
    }
    assert.match(Buffer.from(message ?? []).toString(), /^127\.0\.0\.1:\d+$/)
  })

  test('headers and trailers reach the caller, on success and with an error', async t => {
    const sent: Metadata = new Map<string, (string | Uint8Array)[]>([
      ['x-name', ['one', 'two']],
      ['x-bytes-bin', [Uint8Array.of(0, 255)]],
    ])
    const { client } = await startRig(t, createServer, [
      texts.unary('/test.Test/Send', (text, call) => {
        call.sendHeaders(sent)
        call.setTrailers(new Map([['x-first', ['lost']]]))
        call.setTrailers(sent)
        if (text === 'fail') throw new GrpcError('ABORTED', 'no', new Map([['x-error', ['why']]]))
        return text
      }),
    ])
    for (const text of ['', 'fail']) {
      const { headers, status } = await request(client, '/test.Test/Send', text)
      for (const got of [headers, status.metadata]) {
        assert.deepEqual(textsOf(new Map(Object.entries(got.toJSON())), 'x-name'), ['one', 'two'])
        assert.deepEqual(got.get('x-bytes-bin').map(bytesOf), [[0, 255]])
      }
      assert.deepEqual(status.metadata.get('x-first'), [])
      assert.deepEqual(status.metadata.get('x-error'), text === 'fail' ? ['why'] : [])
    }
  })

  test('headers are sent before the first message, and only once', async t => {
    const { client } = await startRig(t, createServer, [
      texts.serverStream('/test.Test/Early', async function* (_, call) {
        call.sendHeaders(new Map([['x-early', ['yes']]]))
        assert.throws(() => call.sendHeaders(new Map()), /headers/)
        yield 'one'
      }),
      texts.serverStream('/test.Test/Late', async function* (_, call) {
        yield 'one'
        assert.throws(() => call.sendHeaders(new Map()), /headers/)
      }),
    ])
    for (const path of ['/test.Test/Early', '/test.Test/Late']) {
      const { stream, readAll, status } = openStream(client, path)
      stream.end(Buffer.alloc(0))
      assert.deepEqual(await readAll(), ['one'])
      assert.equal((await status).code, statusCodes.OK)
    }
  })

  test('trailers that would replace the status are an internal error', async t => {
    const { client, defects } = await startRig(t, createServer, [
      texts.unary('/test.Test/Forge', (_, call) => {
        call.setTrailers(new Map([['grpc-status', ['0']]]))
        throw new GrpcError('ABORTED', 'no')
      }),
    ])
    assert.equal((await request(client, '/test.Test/Forge')).status.code, statusCodes.INTERNAL)
    assert.deepEqual(defects.map(String).length, 1)
  })
}

function statusContract(createServer: CreateServer): void {
  const throwing = [
    texts.unary('/test.Test/Unary', throwNamed),
    texts.clientStream('/test.Test/ClientStream', async requests => {
      const [first] = await collect(requests)
      return throwNamed(first ?? '')
    }),
    texts.serverStream('/test.Test/ServerStream', async function* (text) {
      yield 'begun'
      throwNamed(text)
    }),
    texts.bidi('/test.Test/Bidi', async function* (requests) {
      for await (const text of requests) throwNamed(text)
      yield 'never'
    }),
  ]
  function throwNamed(text: string): never {
    const [status, message] = JSON.parse(text)
    throw new GrpcError(status, message)
  }

  for (const { path } of throwing) {
    test(`${path}: a GrpcError is the caller's status, with a message in any script`, async t => {
      const { client, defects, server } = await startRig(t, createServer, throwing)
      for (const [status, message] of [
        ['NOT_FOUND', 'no such thing'],
        ['RESOURCE_EXHAUSTED', '100 % of 5\n"quotas" — schön 日本 🚦'],
        ['UNAUTHENTICATED', ''],
        ['UNKNOWN', 'half a pair: \ud83d'],
      ] as const) {
        const call = openStream(client, path)
        call.stream.end(Buffer.from(JSON.stringify([status, message])))
        await call.readAll()
        const { code, details } = await call.status
        assert.equal(code, statusCodes[status])
        assert.equal(details, message.toWellFormed())
      }
      assert.deepEqual(defects, [])
      assert.equal(server.activeCalls, 0)
    })
  }

  test('any other exception is INTERNAL without its text, and reported', async t => {
    const error = new Error('the password is 1234')
    const { client, defects, server } = await startRig(t, createServer, [
      texts.unary('/test.Test/Now', () => {
        throw error
      }),
      texts.unary('/test.Test/Later', () => Promise.reject(error)),
      texts.serverStream('/test.Test/Stream', () => {
        throw error
      }),
      texts.bidi('/test.Test/Bidi', async function* () {
        yield 'one'
        throw error
      }),
      {
        ...textCodec,
        encode() {
          throw error
        },
        path: '/test.Test/Encode',
        kind: 'unary',
        handle: text => text,
      },
    ])
    const paths = ['Now', 'Later', 'Stream', 'Bidi', 'Encode'].map(name => `/test.Test/${name}`)
    for (const path of paths) {
      const call = openStream(client, path)
      call.stream.end(Buffer.alloc(0))
      await call.readAll()
      const { code, details } = await call.status
      assert.equal(code, statusCodes.INTERNAL, path)
      assert.doesNotMatch(details, /password/)
    }
    assert.deepEqual(
      defects,
      paths.map(path => ({ path, error })),
    )
    assert.equal(server.activeCalls, 0)
  })

  test('malformed bytes are INTERNAL, and not reported', async t => {
    const decode = () => {
      throw new Error('not a message')
    }
    const { client, defects } = await startRig(t, createServer, [
      { ...texts.unary('/test.Test/Unary', text => text), decode },
      { ...texts.bidi('/test.Test/Bidi', requests => requests), decode },
    ])
    for (const path of ['/test.Test/Unary', '/test.Test/Bidi']) {
      const call = openStream(client, path)
      call.write('?')
      call.stream.end()
      assert.equal((await call.status).code, statusCodes.INTERNAL)
    }
    assert.deepEqual(defects, [])
  })

  test('an unknown path is UNIMPLEMENTED', async t => {
    const { client, server } = await startRig(t, createServer, [echo])
    for (const path of ['/test.Test/Other', '/other.Test/Echo', '/']) {
      assert.equal((await request(client, path)).status.code, statusCodes.UNIMPLEMENTED, path)
    }
    assert.equal(server.activeCalls, 0)
  })
}

function wireContract(createServer: CreateServer): void {
  test('a message may arrive byte by byte, or with others in one frame', async t => {
    const { port } = await startRig(t, createServer, [echo, echoEach])
    const session = await openSession(t, port)
    const bytewise = Array.from(frame('hello'), byte => Uint8Array.of(byte))
    const unary = await rawRequest(session, grpcHeaders(echo.path), bytewise)
    assert.deepEqual(unary.body, frame('hello'))
    assert.equal(unary.trailers['grpc-status'], '0')
    const all = Buffer.concat(['one', '', 'three'].map(frame))
    const bidi = await rawRequest(session, grpcHeaders(echoEach.path), [all])
    assert.deepEqual(bidi.body, all)
  })

  test('a unary call with no message or two is UNIMPLEMENTED', async t => {
    const { port, server } = await startRig(t, createServer, [echo])
    const session = await openSession(t, port)
    for (const chunks of [[], [frame('one'), frame('two')]]) {
      const { trailers } = await rawRequest(session, grpcHeaders(echo.path), chunks)
      assert.equal(trailers['grpc-status'], String(statusCodes.UNIMPLEMENTED))
    }
    assert.equal(server.activeCalls, 0)
  })

  test('a request that is not gRPC is rejected with HTTP status 415', async t => {
    const { port } = await startRig(t, createServer, [echo])
    const session = await openSession(t, port)
    const headers = { ...grpcHeaders(echo.path), 'content-type': 'application/json' }
    assert.equal((await rawRequest(session, headers, [])).headers[':status'], 415)
  })
}

async function collect(texts: AsyncIterable<string>): Promise<string[]> {
  const all: string[] = []
  for await (const text of texts) all.push(text)
  return all
}

/** Returns the text values of a name, whether they arrived separately or joined. */
function textsOf(metadata: Metadata, name: string): string[] {
  return (metadata.get(name) ?? []).flatMap(value => String(value).split(', '))
}

function bytesOf(value: string | Uint8Array): number[] {
  assert.ok(value instanceof Uint8Array)
  return [...value]
}
