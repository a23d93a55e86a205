import assert from 'node:assert/strict'
import { Duplex } from 'node:stream'
import { describe, type TestContext, test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import { CallTotals } from '../calls/call-context.ts'
import { createGrpcServer } from '../server/create-server.ts'
import { serveConnection } from '../server/serve-connection.ts'
import { frame, openStream, startRig, texts, waitFor } from '../server/testing/contract/support.ts'
import { defaultLimits } from '../server.ts'
import { frameBytes, frameFlags, frameTypes, preface, settingIds, wordBytes } from './frames/frames.ts'
import { encodeHeaderBlock } from './hpack/hpack-encoder.ts'
import { errorOf, openRawClient, requestFields, settingsPayload } from './testing/raw-client.ts'

/**
 * A stopped clock: no budget is refilled, so a peer can spend only the initial amount and what it earns,
 * however slow the machine is.
 */
const clock = { nowMs: () => 0, monotonicMs: () => 0 }

const echo = texts.unary('/test.Test/Echo', text => text)
const echoEach = texts.bidi('/test.Test/EchoEach', requests => requests)
const repeat = texts.serverStream('/test.Test/Repeat', async function* (request) {
  const [count, bytes] = request.split(' ').map(Number)
  for (let sent = 0; sent < (count ?? 0); sent += 1) yield 'x'.repeat(bytes ?? 0)
})

const start = (t: TestContext) =>
  startRig(t, options => createGrpcServer(options, { clock }), [echo, echoEach, repeat])

const wholeBlock = frameFlags.END_HEADERS | frameFlags.END_STREAM
/** A header block of references to the newest entry of the dynamic table. */
const repeated = Buffer.alloc(2_000, 0xbe)
const references = (streamId: number) => [frameTypes.HEADERS, wholeBlock, streamId, repeated] as const
const longList = (streamId: number) => {
  const block = Buffer.concat([encodeHeaderBlock(requestFields('/none')), repeated])
  return [frameTypes.HEADERS, wholeBlock, streamId, block] as const
}
/** Puts a field of 4,000 bytes into the dynamic table, so that one byte can repeat the field. */
function insertLongField({ send }: { send(...frame: ReturnType<typeof longList>): void }): void {
  const field = Buffer.concat([Buffer.from('4001787fa11e', 'hex'), Buffer.alloc(4_000, 'x')])
  send(frameTypes.HEADERS, wholeBlock, 1, Buffer.concat([encodeHeaderBlock(requestFields('/none')), field]))
}

const initialWindow = (bytes: number) => settingsPayload([settingIds.INITIAL_WINDOW_SIZE, bytes])

/** Opens a connection in memory with answers that are blocked by their send windows. */
async function openBlocked(answers: number) {
  const socket = new Duplex({ read() {}, write: (_chunk, _encoding, done) => done() })
  const context = {
    methods: new Map([[echo.path, echo]]),
    limits: defaultLimits,
    onDefect: (path: string, error: unknown) => assert.fail(`${path}: ${error}`),
    totals: new CallTotals(),
    memory: new MemoryBudget(),
    clock,
    random: () => 0.5,
    keepaliveMs: 60_000,
  }
  const { connection } = serveConnection(socket, 'memory', context, () => {})
  const block = encodeHeaderBlock(requestFields(echo.path))
  const calls = Array.from({ length: answers }, (_, index) => [
    frameBytes(frameTypes.HEADERS, frameFlags.END_HEADERS, 2 * index + 1, block),
    frameBytes(frameTypes.DATA, frameFlags.END_STREAM, 2 * index + 1, frame('an answer')),
  ])
  socket.push(
    Buffer.concat([preface, frameBytes(frameTypes.SETTINGS, 0, 0, initialWindow(0)), ...calls.flat()]),
  )
  await turn()
  assert.equal(context.totals.size, answers, 'the answers wait')
  return {
    /** Reads the frames; resolves with the duration in milliseconds. */
    async read(frames: Buffer): Promise<number> {
      const startMs = performance.now()
      socket.push(frames)
      await turn()
      const tookMs = performance.now() - startMs
      assert.equal(socket.writableEnded, false, 'the connection stays open')
      return tookMs
    },
    close: () => connection.destroy(),
  }
}

describe('the work for a frame does not grow with the number of waiting streams', () => {
  const frames = 1_900
  const repeated = (one: Buffer) => Buffer.concat(Array(frames).fill(one))
  const widen = (id: number) => frameBytes(frameTypes.WINDOW_UPDATE, 0, id, wordBytes(1))
  const floods: readonly (readonly [string, Buffer])[] = [
    ['WINDOW_UPDATE of the connection', repeated(widen(0))],
    ['WINDOW_UPDATE of a stream', repeated(widen(1))],
    ['PING', repeated(frameBytes(frameTypes.PING, 0, 0, Buffer.alloc(8)))],
    ['SETTINGS', repeated(frameBytes(frameTypes.SETTINGS, 0, 0, initialWindow(0))).subarray(0, 15 * 1_500)],
  ]
  for (const [name, bytes] of floods) {
    test(name, async () => {
      const fastest = async (answers: number) => {
        const times: number[] = []
        for (let round = 0; round < 5; round += 1) {
          const { read, close } = await openBlocked(answers)
          times.push(await read(bytes))
          close()
        }
        return Math.min(...times)
      }
      await fastest(10)
      const few = await fastest(10)
      const many = await fastest(990)
      assert.ok(many < 5 * few + 5, `${frames} frames took ${many} ms with 990 answers, ${few} ms with 10`)
    })
  }
})

describe('# floods end the connection with ENHANCE_YOUR_CALM', () => {
  type Caller = Awaited<ReturnType<typeof openRawClient>>
  const begin = (caller: Caller) => caller.begin(1, requestFields(echoEach.path))
  const nothing = () => {}
  const sends =
    (type: number, id = 0, payload = Buffer.alloc(0), flags = 0) =>
    (caller: Caller) =>
      caller.send(type, flags, id, payload)
  const floods: readonly [string, (caller: Caller) => void, (caller: Caller, n: number) => void][] = [
    ['PING', nothing, sends(frameTypes.PING, 0, Buffer.alloc(8))],
    ['PING with ACK', nothing, sends(frameTypes.PING, 0, Buffer.alloc(8), frameFlags.ACK)],
    ['SETTINGS', nothing, sends(frameTypes.SETTINGS)],
    ['SETTINGS with ACK', nothing, sends(frameTypes.SETTINGS, 0, Buffer.alloc(0), frameFlags.ACK)],
    ['GOAWAY', nothing, sends(frameTypes.GOAWAY, 0, Buffer.alloc(8))],
    ['unknown frames', nothing, sends(0x7f)],
    ['PRIORITY', nothing, sends(frameTypes.PRIORITY, 3, Buffer.alloc(5))],
    ['WINDOW_UPDATE of the connection', nothing, caller => caller.widen(0, 1)],
    ['WINDOW_UPDATE of a stream', begin, caller => caller.widen(1, 1)],
    ['WINDOW_UPDATE of a closed stream', closeFirst, caller => caller.widen(1, 1)],
    ['RST_STREAM of a closed stream', closeFirst, caller => caller.reset(1)],
    ['HEADERS of a closed stream', closeFirst, caller => caller.begin(1, [['x', 'y']], true)],
    ['long header lists', insertLongField, (caller, n) => caller.send(...longList(2 * n + 3))],
    [
      'long header lists of malformed requests',
      insertLongField,
      (caller, n) => caller.send(...references(2 * n + 3)),
    ],
    ['long header lists in CONTINUATION', insertLongField, continueLongList],
    ['long trailers', insertLongField, beginAndTrail],
    ['empty DATA', begin, sends(frameTypes.DATA, 1)],
    ['DATA of one byte', beginMessage, sends(frameTypes.DATA, 1, Buffer.alloc(1))],
    ['small CONTINUATION', sends(frameTypes.HEADERS, 1), sends(frameTypes.CONTINUATION, 1, Buffer.of(0x88))],
  ]

  function beginMessage(caller: Caller): void {
    begin(caller)
    caller.data(1, frame('x'.repeat(100_000)).subarray(0, 100), false)
  }

  /**
   * Makes the server close the stream: it answers, and resets the stream since the caller has not ended its
   * side.
   */
  function closeFirst(caller: Caller): void {
    caller.begin(1, requestFields('/none'))
  }

  function continueLongList(caller: Caller, n: number): void {
    const [, , streamId, block] = longList(2 * n + 3)
    caller.send(frameTypes.HEADERS, frameFlags.END_STREAM, streamId, block)
    caller.send(frameTypes.CONTINUATION, frameFlags.END_HEADERS, streamId, repeated)
  }

  function beginAndTrail(caller: Caller, n: number): void {
    caller.begin(2 * n + 3, requestFields(echoEach.path))
    caller.send(...references(2 * n + 3))
  }

  for (const [what, prepare, send] of floods) {
    test(what, async t => {
      const { port } = await start(t)
      const caller = await openRawClient(t, port)
      prepare(caller)
      await turn()
      for (let sent = 0; sent < 2_010; sent += 1) send(caller, sent)
      assert.equal(errorOf(await caller.next('GOAWAY')), 'ENHANCE_YOUR_CALM')
      await waitFor('a closed connection', caller.isClosed)
    })
  }

  const count = ({ received }: Caller) => received.filter(({ type }) => type === 'SETTINGS').length

  test('an initial window that wakes many streams costs as much as that many frames', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port, initialWindow(0))
    for (let call = 0; call < 500; call += 1) {
      caller.begin(2 * call + 1, requestFields(echo.path))
      caller.data(2 * call + 1, frame('an answer'))
    }
    await caller.next('HEADERS', 999)
    let acknowledged = 0
    for (let bytes = 1; bytes < 12; bytes += 1) {
      caller.send(frameTypes.SETTINGS, 0, 0, initialWindow(bytes))
      await waitFor('an answer', () => caller.isClosed() || count(caller) > acknowledged)
      acknowledged = count(caller)
    }
    assert.equal(errorOf(await caller.next('GOAWAY')), 'ENHANCE_YOUR_CALM')
  })
})

describe('well-behaved peers are not floods', () => {
  test('a proxy with some callers whose header lists are too long', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port)
    insertLongField(caller)
    for (let call = 1; call < 300; call += 1) {
      caller.send(...longList(2 * call + 1))
      await caller.next('HEADERS', 2 * call + 1)
    }
    assert.equal(caller.isClosed(), false)
  })

  test('a peer that gives back both windows and sends PING for each frame of DATA', async t => {
    const messages = 5_000
    const { port } = await start(t)
    const caller = await openRawClient(t, port)
    let answered = 0
    caller.socket.on('data', () => {
      for (; answered < caller.received.length; answered += 1) {
        const { type, payload } = caller.received[answered] ?? assert.fail()
        if (type !== 'DATA' || payload.length === 0) continue
        caller.widen(0, payload.length)
        caller.widen(1, payload.length)
        caller.send(frameTypes.PING, 0, 0, Buffer.alloc(8))
      }
    })
    caller.begin(1, requestFields(repeat.path))
    caller.data(1, frame(`${messages} 100`))
    await waitFor('an end', () => caller.isClosed() || caller.bodyOf(1).length === messages * 105)
    assert.equal(caller.isClosed(), false)
  })

  for (const [messages, bytes] of [
    [5_000, 10],
    [20, 4_000_000],
  ] as const) {
    test(`grpc-js, which gets ${messages} messages of ${bytes} bytes`, async t => {
      const { client } = await start(t)
      const { write, readBytes, status, stream } = openStream(client, repeat.path)
      write(`${messages} ${bytes}`)
      stream.end()
      for (let read = 0; read < messages; read += 1) assert.equal((await readBytes())?.length, bytes)
      assert.equal(await readBytes(), undefined)
      assert.equal((await status).code, 0)
    })
  }

  test('a peer that opens the windows of many streams at once, some of them already closed', async t => {
    const { port } = await start(t)
    const caller = await openRawClient(t, port)
    caller.begin(1, requestFields(echoEach.path))
    caller.widen(1, 2 ** 31 - 1 - 65_535)
    caller.reset(1)
    caller.begin(3, requestFields(echoEach.path))
    caller.send(frameTypes.SETTINGS, 0, 0, initialWindow(1_000_000))
    caller.data(3, frame('still here'), false)
    await caller.next('DATA', 3)
    caller.widen(3, 2 ** 31 - 1 - 1_000_000)
    caller.send(frameTypes.SETTINGS, 0, 0, initialWindow(1_000_100))
    assert.equal(errorOf(await caller.next('GOAWAY')), 'FLOW_CONTROL_ERROR')
  })
})
