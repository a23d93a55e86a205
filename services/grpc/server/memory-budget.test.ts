import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import { frameFlags, frameTypes } from '../http2/frames/frames.ts'
import { encodeHeaderBlock } from '../http2/hpack/hpack-encoder.ts'
import { errorOf, openRawClient, requestFields } from '../http2/testing/raw-client.ts'
import type { GrpcLimits } from '../server.ts'
import { statusCodes } from '../status.ts'
import { createGrpcServer } from './create-server.ts'
import { frame, request, startRig, texts, waitFor } from './testing/contract/support.ts'

const echo = texts.unary('/test.Test/Echo', text => `${text.length}`)
const slow = texts.clientStream('/test.Test/Slow', async (_, { signal }) => {
  await new Promise(resolve => signal.addEventListener('abort', resolve))
  return ''
})
const read = texts.clientStream('/test.Test/Read', async requests => {
  let length = 0
  for await (const text of requests) length += text.length
  return `${length}`
})
const list = texts.serverStream('/test.Test/List', async function* (text) {
  yield `${text.length}`
})
const maxBytes = 8 * 1024 * 1024

async function start(t: TestContext, limits: Partial<GrpcLimits> = {}) {
  const memory = new MemoryBudget(maxBytes)
  const rig = await startRig(
    t,
    options => createGrpcServer({ ...options, memory }),
    [echo, slow, read, list],
    limits,
  )
  return { ...rig, memory, caller: await openRawClient(t, rig.port) }
}

type Caller = Awaited<ReturnType<typeof openRawClient>>

const statusOf = ({ received }: Caller, id: number) => {
  const headers = received.findLast(({ type, streamId }) => type === 'HEADERS' && streamId === id)
  return /grpc-status.(\d+)/s.exec(headers?.payload.toString('latin1') ?? '')?.[1]
}

/**
 * Sends the message without its last byte, so that the request stays unfinished. Resolves when the bytes are
 * sent, as far as the windows allow.
 */
async function sendMost(caller: Caller, id: number, message: Buffer, pieceBytes = 16_000): Promise<void> {
  let window = 65_535
  let seen = caller.received.length
  for (let at = 0; at < message.length - 1; ) {
    for (; seen < caller.received.length; seen += 1) {
      const { type, streamId, payload } = caller.received[seen] ?? assert.fail()
      if (type === 'WINDOW_UPDATE' && streamId === id) window += payload.readUInt32BE(0)
      if (type === 'RST_STREAM' && streamId === id) return
    }
    const end = Math.min(at + pieceBytes, message.length - 1)
    if (end - at <= window) {
      caller.data(id, message.subarray(at, end), false)
      window -= end - at
      at = end
    } else await new Promise(resolve => setImmediate(resolve))
  }
}

for (const { path } of [echo, list]) {
  test(`${path}: 900 unfinished messages use at most the limit; the oldest is answered`, async t => {
    const { memory, caller, server, client } = await start(t)
    const message = frame('x'.repeat(2_000_000))
    let most = 0
    for (let call = 0; call < 900; call += 1) {
      const id = 2 * call + 1
      caller.begin(id, requestFields(path))
      await sendMost(caller, id, call < 10 ? message : message.subarray(0, 20_000))
      most = Math.max(most, memory.bytes)
    }
    assert.ok(most > maxBytes / 2 && most <= maxBytes, `${most} bytes were used`)
    await waitFor('rejections', () => statusOf(caller, 1799) !== undefined)
    assert.equal(statusOf(caller, 1799), String(statusCodes.RESOURCE_EXHAUSTED))
    assert.equal(statusOf(caller, 1), undefined)
    const { status } = await request(client, echo.path, 'a short request')
    assert.equal(status.code, statusCodes.OK)
    caller.data(1, message.subarray(-1))
    await waitFor('the answer', () => caller.bodyOf(1).equals(frame('2000000')))
    caller.socket.destroy()
    await waitFor('no call', () => server.activeCalls === 0)
    assert.equal(memory.bytes, 0)
  })
}

test('messages of calls without an end are counted too', async t => {
  const { memory, caller } = await start(t)
  for (const [index, { path }] of [echo, list].entries()) {
    caller.begin(2 * index + 1, requestFields(path))
    caller.data(2 * index + 1, frame('x'.repeat(10_000)), false)
  }
  await waitFor('both', () => memory.bytes >= 20_000)
  caller.send(frameTypes.DATA, frameFlags.END_STREAM, 1)
  caller.send(frameTypes.DATA, frameFlags.END_STREAM, 3)
  await waitFor('none', () => memory.bytes === 0)
})

test('messages that a handler does not read are counted, and those of the newest calls rejected', async t => {
  const { memory, caller } = await start(t)
  const body = frame('x'.repeat(15_000))
  const calls = 200
  for (let call = 0; call < calls; call += 1) {
    caller.begin(2 * call + 1, requestFields(slow.path))
    for (let sent = 0; sent < 4; sent += 1) caller.data(2 * call + 1, body, false)
    assert.ok(memory.bytes <= maxBytes)
  }
  await waitFor('rejections', () => statusOf(caller, 2 * calls - 1) !== undefined)
  assert.equal(statusOf(caller, 2 * calls - 1), String(statusCodes.RESOURCE_EXHAUSTED))
  assert.equal(statusOf(caller, 1), undefined)
})

test('a large message is received completely while others are incomplete', async t => {
  const { caller, client } = await start(t)
  for (let call = 0; call < 100; call += 1) {
    caller.begin(2 * call + 1, requestFields(echo.path))
    caller.data(2 * call + 1, frame('x'.repeat(20_000)).subarray(0, 10_000), false)
  }
  const { message, status } = await request(client, echo.path, 'x'.repeat(4_000_000))
  assert.equal(status.code, statusCodes.OK)
  assert.equal(Buffer.from(message ?? []).toString(), '4000000')
})

test('long metadata of unfinished requests is counted', async t => {
  const { memory, caller } = await start(t)
  for (let call = 0; call < 900; call += 1) {
    const more = [['x-more', `${call}`.padEnd(15_000, 'x')]] as const
    caller.begin(2 * call + 1, requestFields(echo.path, more))
  }
  await waitFor('rejections', () => statusOf(caller, 1799) !== undefined)
  assert.equal(statusOf(caller, 1799), String(statusCodes.RESOURCE_EXHAUSTED))
  assert.ok(memory.bytes <= maxBytes)
})

test('header blocks without an end are counted; the newest connection is closed', async t => {
  const { port, memory } = await start(t)
  const block = encodeHeaderBlock([['x-long', 'x'.repeat(60_000)]])
  const open = async () => {
    const caller = await openRawClient(t, port)
    for (let at = 0; at < block.length; at += 16_000) {
      const type = at === 0 ? frameTypes.HEADERS : frameTypes.CONTINUATION
      caller.send(type, 0, 1, block.subarray(at, at + 16_000))
    }
    return caller
  }
  const callers: Caller[] = []
  const isRejected = ({ received }: Caller) => received.some(({ type }) => type === 'GOAWAY')
  while (!callers.some(isRejected)) callers.push(await open())
  assert.ok(callers.length > maxBytes / block.length, `${callers.length} connections`)
  assert.ok(memory.bytes <= maxBytes)
  const rejected = callers.find(isRejected)
  assert.equal(errorOf((await rejected?.next('GOAWAY')) ?? assert.fail()), 'ENHANCE_YOUR_CALM')
  const [oldest] = callers
  assert.ok(oldest && !isRejected(oldest))
})

test('connections that end release their memory', async t => {
  const { port, memory } = await start(t)
  const caller = await openRawClient(t, port)
  caller.begin(1, requestFields(echo.path))
  caller.data(1, frame('x'.repeat(20_000)).subarray(0, 10_000), false)
  await waitFor('the message', () => memory.bytes > 0)
  caller.socket.destroy()
  await waitFor('none', () => memory.bytes === 0)
})

for (const { path } of [echo, read, list]) {
  test(`${path}: a message that is not complete in time ends its call and gives its memory back`, async t => {
    const { memory, caller } = await start(t, { requestTimeoutMs: 1_000 })
    const message = frame('x'.repeat(10_000))
    caller.begin(1, requestFields(path))
    caller.data(1, message.subarray(0, -1), false)
    await waitFor('its memory to be counted', () => memory.bytes > 0)
    await waitFor('the status', () => statusOf(caller, 1) === String(statusCodes.DEADLINE_EXCEEDED))
    assert.equal(memory.bytes, 0)
  })
}

test('messages that a handler does not read are not late', async t => {
  const { memory, caller } = await start(t, { requestTimeoutMs: 500 })
  const message = frame('x'.repeat(10_000))
  caller.begin(1, requestFields(slow.path))
  for (let sent = 0; sent < 3; sent += 1) caller.data(1, message, false)
  await waitFor('the messages to be counted', () => memory.bytes >= 20_000)
  // This call begins after the first one, so it is the newer one.
  caller.begin(3, requestFields(echo.path))
  caller.data(3, message.subarray(0, -1), false)
  await waitFor('the status', () => statusOf(caller, 3) === String(statusCodes.DEADLINE_EXCEEDED))
  assert.equal(statusOf(caller, 1), undefined)
  assert.ok(memory.bytes >= 20_000)
})
