import assert from 'node:assert/strict'
import { describe, type TestContext, test } from 'node:test'
import { createGrpcServer } from '../server/create-server.ts'
import { frame, startRig, texts, waitFor } from '../server/testing/contract/support.ts'
import { frameFlags, frameTypes, settingIds, wordBytes } from './frames/frames.ts'
import { HpackDecoder } from './hpack/hpack-decoder.ts'
import { errorOf, openRawClient, requestFields, settingsPayload } from './testing/raw-client.ts'

const echo = texts.unary('/test.Test/Echo', text => text)
const echoEach = texts.bidi('/test.Test/EchoEach', requests => requests)

function start(t: TestContext, settings: Parameters<typeof createGrpcServer>[1] = {}, limits = {}) {
  const createServer = (options: Parameters<typeof createGrpcServer>[0]) =>
    createGrpcServer(options, settings)
  return startRig(t, createServer, [echo, echoEach], limits)
}

describe('flow control', () => {
  test('an answer stays within the windows, and continues as they open', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port, settingsPayload([settingIds.INITIAL_WINDOW_SIZE, 3]))
    caller.begin(1, requestFields(echo.path))
    caller.data(1, frame('hello'))
    await caller.next('DATA', 1)
    caller.begin(3, requestFields('/nobody'), true)
    await caller.next('HEADERS', 3)
    assert.equal(caller.bodyOf(1).length, 3)
    caller.widen(1, 4)
    await caller.next('DATA', 1)
    assert.equal(caller.bodyOf(1).length, 7)
    // A larger initial window opens the windows of existing streams.
    caller.send(frameTypes.SETTINGS, 0, 0, settingsPayload([settingIds.INITIAL_WINDOW_SIZE, 100]))
    const { flags } = await caller.next('HEADERS', 1)
    assert.deepEqual(caller.bodyOf(1), frame('hello'))
    assert.ok(flags & frameFlags.END_STREAM)
  })

  test('a smaller initial window makes the windows of open streams negative', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port, settingsPayload([settingIds.INITIAL_WINDOW_SIZE, 10]))
    caller.begin(1, requestFields(echoEach.path))
    caller.data(1, frame('12345'), false)
    await waitFor('ten bytes', () => caller.bodyOf(1).length === 10)
    caller.send(frameTypes.SETTINGS, 0, 0, settingsPayload([settingIds.INITIAL_WINDOW_SIZE, 0]))
    caller.data(1, frame('67890'), false)
    caller.widen(1, 10)
    caller.send(frameTypes.PING, 0, 0, Buffer.alloc(8))
    await caller.next('PING')
    assert.equal(caller.bodyOf(1).length, 10)
    caller.widen(1, 1)
    await waitFor('one byte more', () => caller.bodyOf(1).length === 11)
  })

  test('streams take turns with the window of the connection, and lose no bytes', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port, settingsPayload([settingIds.INITIAL_WINDOW_SIZE, 1_000_000]))
    const body = frame('x'.repeat(40_000))
    for (const id of [1, 3, 5]) {
      caller.begin(id, requestFields(echo.path))
      for (let sent = 0; sent < body.length; sent += 16_000) {
        caller.data(id, body.subarray(sent, sent + 16_000), sent + 16_000 >= body.length)
      }
    }
    const received = () => [1, 3, 5].map(id => caller.bodyOf(id).length)
    await waitFor('a window that is used up', () => received().reduce((a, b) => a + b) === 65_535)
    caller.widen(0, 100_000)
    await waitFor('all answers', () => received().every(bytes => bytes === body.length))
  })

  test('a stream with endless data does not starve the others', async t => {
    const message = Buffer.alloc(1300, 'x')
    const path = '/test.Test/Endless'
    const endless = texts.serverSink(path, async (_, { signal }, sink) => {
      const fill = () => {
        while (sink.write(message));
      }
      sink.onReady(fill)
      fill()
      await new Promise(resolve => signal.addEventListener('abort', resolve))
    })
    const { port } = await startRig(t, createGrpcServer, [endless])
    const caller = await openRawClient(t, port, settingsPayload([settingIds.INITIAL_WINDOW_SIZE, 2 ** 30]))
    const ids = [1, 3, 5]
    const received = () => ids.map(id => caller.bodyOf(id).length)
    for (const id of ids) {
      caller.begin(id, requestFields(path))
      caller.data(id, frame(''))
    }
    let sent = 65_535
    const all = (bytes: number) => bytes === sent
    await waitFor('a window that is used up', () => all(received().reduce((a, b) => a + b)))
    const before = received()
    for (let round = 0; round < 30; round += 1) {
      caller.widen(0, 30_000)
      sent += 30_000
      await waitFor('a window that is used up', () => all(received().reduce((a, b) => a + b)))
    }
    for (const [index, bytes] of received().entries()) {
      const got = bytes - (before[index] ?? 0)
      assert.ok(Math.abs(got - 300_000) < 50_000, `stream ${ids[index]} got ${got} of 900,000 bytes`)
    }
    caller.widen(0, 2 ** 30)
    await waitFor('more of all', () => received().every(bytes => bytes > 2_000_000))
  })

  test('more than the window allows is FLOW_CONTROL_ERROR of the stream', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port)
    // The handler does not read, so the window of the stream stays used up.
    caller.send(frameTypes.SETTINGS, 0, 0, settingsPayload([settingIds.INITIAL_WINDOW_SIZE, 0]))
    caller.begin(1, requestFields(echoEach.path))
    const body = frame('x'.repeat(10_000))
    for (let sent = 0; sent < 8; sent += 1) caller.data(1, body, false)
    assert.equal(errorOf(await caller.next('RST_STREAM', 1)), 'FLOW_CONTROL_ERROR')
  })

  test('a peer that reads late blocks the answers, and gets all of them', async t => {
    const { port, server } = await start(t)
    const caller = await openRawClient(t, port, settingsPayload([settingIds.INITIAL_WINDOW_SIZE, 2 ** 30]))
    caller.widen(0, 2 ** 30)
    caller.socket.pause()
    const body = frame('x'.repeat(16_000))
    const ids = Array.from({ length: 900 }, (_, index) => 2 * index + 1)
    for (const id of ids) {
      caller.begin(id, requestFields(echo.path))
      caller.data(id, body)
    }
    await waitFor('calls that wait to be answered', () => server.activeCalls > 0)
    caller.socket.resume()
    await waitFor('all answers', () => ids.every(id => caller.bodyOf(id).equals(body)))
    await waitFor('no call', () => server.activeCalls === 0)
  })

  test('padding is not part of the body, and its window is given back', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port)
    caller.begin(1, requestFields(echoEach.path))
    const padded = Buffer.concat([Buffer.of(255), Buffer.alloc(255)])
    for (let sent = 0; sent < 1000; sent += 1) {
      caller.send(frameTypes.DATA, frameFlags.PADDED, 1, padded)
      if (sent % 200 === 199) await caller.next('WINDOW_UPDATE', 1)
    }
    caller.send(frameTypes.DATA, frameFlags.PADDED, 1, Buffer.from(`\u0002${frame('hi')}..`, 'latin1'))
    await waitFor('an answer', () => caller.bodyOf(1).equals(frame('hi')))
  })
})

describe('headers', () => {
  test('a peer without a dynamic table is informed once that the table of the server is empty', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port, settingsPayload([settingIds.HEADER_TABLE_SIZE, 0]))
    for (const id of [1, 3]) {
      caller.begin(id, requestFields(echo.path))
      caller.data(id, frame(''))
      const { payload } = await caller.next('HEADERS', id)
      assert.equal(payload.readUInt8(0), id === 1 ? 0x20 : 0x88)
    }
  })

  test('trailers that are longer than a frame continue in CONTINUATION', async t => {
    const long = 'x'.repeat(40_000)
    const { port } = await startRig(t, createGrpcServer, [
      texts.unary('/test.Test/Long', (text, call) => {
        call.setTrailers(new Map([['x-long', [long]]]))
        return text
      }),
    ])
    const caller = await openRawClient(t, port)
    caller.begin(1, requestFields('/test.Test/Long'))
    caller.data(1, frame(''))
    await caller.next('DATA', 1)
    const parts = [await caller.next('HEADERS', 1), await caller.next('CONTINUATION', 1)]
    parts.push(await caller.next('CONTINUATION', 1))
    const flags = [frameFlags.END_STREAM, 0, frameFlags.END_HEADERS]
    assert.deepEqual(
      parts.map(part => part.flags),
      flags,
    )
    const block = Buffer.concat(parts.map(part => part.payload))
    const { fields } = new HpackDecoder(100_000).decode(block, 0, block.length)
    assert.deepEqual(fields, ['grpc-status', '0', 'x-long', long])
  })

  test('a header block of 64 KiB and more ends its connection by ENHANCE_YOUR_CALM', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port)
    caller.send(frameTypes.HEADERS, 0, 1, Buffer.alloc(16_000))
    for (let sent = 0; sent < 5; sent += 1) caller.send(frameTypes.CONTINUATION, 0, 1, Buffer.alloc(16_000))
    assert.equal(errorOf(await caller.next('GOAWAY')), 'ENHANCE_YOUR_CALM')
  })
})

describe('peers that exceed limits', () => {
  test('a reset call keeps its place until its handler has ended; beyond is REFUSED_STREAM', async t => {
    const gate = Promise.withResolvers<void>()
    const held = texts.unary('/test.Test/Held', async text => {
      await gate.promise
      return text
    })
    const { port, server } = await startRig(t, createGrpcServer, [held], { maxConcurrentStreams: 2 })
    const caller = await openRawClient(t, port)
    for (const id of [1, 3]) {
      caller.begin(id, requestFields(held.path))
      caller.data(id, frame(''))
      caller.reset(id)
    }
    caller.begin(5, requestFields(held.path))
    assert.equal(errorOf(await caller.next('RST_STREAM', 5)), 'REFUSED_STREAM')
    assert.equal(server.activeCalls, 2)
    gate.resolve()
    await waitFor('no call', () => server.activeCalls === 0)
    caller.begin(7, requestFields(held.path))
    caller.data(7, frame(''))
    await caller.next('DATA', 7)
  })

  test('9,000 calls that are begun and cancelled are allowed', async t => {
    const { port, server } = await start(t)
    const caller = await openRawClient(t, port)
    for (let call = 0; call < 9_000; call += 1) {
      caller.begin(2 * call + 1, requestFields(echoEach.path))
      caller.reset(2 * call + 1)
    }
    caller.begin(20_001, requestFields(echo.path))
    caller.data(20_001, frame('still here'))
    await caller.next('DATA', 20_001)
    assert.ok(caller.received.every(({ type }) => type !== 'GOAWAY'))
    await waitFor('no call', () => server.activeCalls === 0)
  })

  test('more than 10,000 resets in a second are ENHANCE_YOUR_CALM', async t => {
    const { port } = await start(t, { clock: { nowMs: () => 0, monotonicMs: () => 0 } })
    const caller = await openRawClient(t, port)
    for (let call = 0; call < 10_001; call += 1) {
      caller.begin(2 * call + 1, requestFields(echo.path))
      caller.reset(2 * call + 1)
    }
    assert.equal(errorOf(await caller.next('GOAWAY')), 'ENHANCE_YOUR_CALM')
  })
})

describe('the end of a connection', () => {
  test('drain: calls that begin before the peer knows are answered, later ones ignored', async t => {
    const { port, server } = await start(t)
    const caller = await openRawClient(t, port)
    caller.begin(1, requestFields(echoEach.path))
    await waitFor('the call', () => server.activeCalls === 1)
    const drained = server.drain(60_000)
    const first = await caller.next('GOAWAY')
    assert.equal(first.payload.readUInt32BE(0), 2 ** 31 - 1)
    const { payload: ping } = await caller.next('PING')
    caller.begin(3, requestFields(echo.path))
    caller.data(3, frame('in time'))
    await caller.next('DATA', 3)
    caller.send(frameTypes.PING, frameFlags.ACK, 0, ping)
    const last = await caller.next('GOAWAY')
    assert.deepEqual(last.payload, wordBytes(3, 0))
    caller.begin(5, requestFields(echo.path))
    caller.data(5, frame('too late'))
    caller.data(1, frame('goodbye'))
    await waitFor('a closed connection', caller.isClosed)
    assert.deepEqual(caller.bodyOf(1), frame('goodbye'))
    assert.equal(caller.bodyOf(5).length, 0)
    await drained
  })

  test('a silent peer is pinged, and disconnected when it does not answer', async t => {
    const { port } = await start(t, { keepaliveMs: 500 })
    const caller = await openRawClient(t, port)
    for (let round = 0; round < 3; round += 1) {
      const { payload } = await caller.next('PING')
      assert.equal(caller.isClosed(), false)
      caller.send(frameTypes.PING, frameFlags.ACK, 0, payload)
    }
    await waitFor('a closed connection', caller.isClosed)
  })
})
