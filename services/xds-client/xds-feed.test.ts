import assert from 'node:assert/strict'
import { test } from 'node:test'
import { GrpcError } from '@tollway/grpc/status.ts'
import { freePorts } from '../../test/support/free-ports.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { inShort, startServer } from './testing/management-server.ts'
import { response, startFeed, textTypeUrl } from './testing/start-feed.ts'

test('the first request has the node; every response is answered with version and nonce', async t => {
  const server = await startServer(t)
  const { inForce } = startFeed(t, server.address)
  const stream = await server.stream(0)
  const first = await stream.heard()
  assert.equal(first.typeUrl, textTypeUrl)
  assert.deepEqual(first.resourceNames, [])
  assert.equal(first.node?.id, 'pod-1')
  assert.deepEqual(first.node?.metadata, { uid: 'u-1' })
  assert.equal(inShort(first), 'ack  ()')
  assert.equal(inForce(), undefined)
  for (const [version, text] of [
    ['v1', 'a:1'],
    ['v2', 'a:2 b:1'],
    ['v3', ''],
  ] as const) {
    stream.send(response(version, text))
    assert.equal(inShort(await stream.heard()), `ack ${version} (nonce of ${version})`)
    assert.equal(inForce(), text)
  }
})

test('a rejection has a line for each problem, and keeps the version and the active configuration', async t => {
  const server = await startServer(t)
  const { inForce, rejections } = startFeed(t, server.address)
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('v1', 'a:1'))
  await stream.heard()
  stream.send(response('v2', 'a:2 b:wrong c:wrong'))
  const rejection = await stream.heard()
  assert.equal(inShort(rejection), 'nack v1 (nonce of v2)')
  assert.equal(rejection.errorDetail?.code, 3)
  assert.equal(rejection.errorDetail?.message, 'b:wrong: is not a number\nc:wrong: is not a number')
  assert.equal(inForce(), 'a:1')
  stream.send(response('v3', '', { typeUrl: 'type.googleapis.com/test.Other' }))
  const other = await stream.heard()
  assert.equal(inShort(other), 'nack v1 (nonce of v3)')
  assert.equal(
    other.errorDetail?.message,
    `response: its type is 'type.googleapis.com/test.Other', not ${textTypeUrl}`,
  )
  assert.equal(inForce(), 'a:1')
  stream.send(response('v4', 'a:3'))
  assert.equal(inShort(await stream.heard()), 'ack v4 (nonce of v4)')
  assert.equal(inForce(), 'a:3')
  assert.equal(rejections(), 2)
})

test('active content is acknowledged without a load; its version with other content is loaded', async t => {
  const server = await startServer(t)
  const { inForce, loads } = startFeed(t, server.address)
  const first = await server.stream(0)
  await first.heard()
  first.send(response('v1', 'a:1'))
  await first.heard()
  first.end()

  const second = await server.stream(1)
  assert.equal(inShort(await second.heard()), 'ack v1 ()')
  second.send(response('v1', 'a:1', { nonce: 'new' }))
  assert.equal(inShort(await second.heard()), 'ack v1 (new)')
  assert.equal(loads(), 1)
  second.send(response('v1', 'a:2', { nonce: 'newer' }))
  assert.equal(inShort(await second.heard()), 'ack v1 (newer)')
  assert.equal(inForce(), 'a:2')
})

test('the first rejection is sent at once, later ones are delayed, and content is loaded once', async t => {
  const server = await startServer(t)
  const rejectionIntervalMs = 30
  const { rejections } = startFeed(t, server.address, { rejectionIntervalMs })
  const stream = await server.stream(0)
  await stream.heard()
  // The first rejection can arrive long after it was sent; the interval begins when it is sent.
  const beganMs = performance.now()
  stream.send(response('v1', 'a:wrong'))
  const rejection = await stream.heard()
  for (const nonce of ['2', '3']) {
    stream.send(response('v1', 'a:wrong', { nonce }))
    const again = await stream.heard()
    assert.equal(again.responseNonce, nonce)
    assert.equal(again.errorDetail?.message, rejection.errorDetail?.message)
  }
  assert.ok(performance.now() - beganMs >= 2 * rejectionIntervalMs - 2)
  assert.equal(rejections(), 1)
})

test('a fix is active at once while the rejection of a repeated response waits', async t => {
  const server = await startServer(t)
  const { inForce } = startFeed(t, server.address, { rejectionIntervalMs: 60_000, connectRetryMs: 60_000 })
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('v1', 'a:wrong'))
  await stream.heard()
  stream.send(response('v1', 'a:wrong', { nonce: 'again' }))
  stream.send(response('v2', 'a:1'))
  assert.equal(inShort(await stream.heard()), 'ack v2 (nonce of v2)')
  assert.equal(inForce(), 'a:1')
  // The next rejection still waits for the interval, but `stop` does not wait for it.
  stream.send(response('v3', 'a:wrong'))
  stream.send(response('v4', 'a:2'))
  assert.equal(inShort(await stream.heard()), 'ack v4 (nonce of v4)')
  stream.send(response('v5', 'a:wrong'))
})

test('a server that repeats invalid responses is read at the pace of the rejections', async t => {
  const server = await startServer(t)
  const { rejections } = startFeed(t, server.address, { rejectionIntervalMs: 50 })
  const stream = await server.stream(0)
  await stream.heard()
  const beganMs = performance.now()
  for (let count = 1; count <= 50; count++) stream.send(response(`v${count}`, `a${count}:wrong`))
  for (let count = 1; count <= 3; count++) await stream.heard()
  const intervals = Math.floor((performance.now() - beganMs) / 50)
  assert.ok(rejections() <= 3 + 2 * intervals, `${rejections()} were loaded in ${intervals} intervals`)
})

test('an ended stream is opened again with growing delays, until a response was good', async t => {
  const server = await startServer(t)
  startFeed(t, server.address, { clock: { nowMs: () => 0, monotonicMs: () => 0 } })
  const opened = async (index: number) => (await server.stream(index)).openedMs
  const first = await server.stream(0)
  await first.heard()
  first.send(response('v1', 'a:1'))
  await first.heard()
  first.end()
  for (const index of [1, 2, 3]) (await server.stream(index)).end(new GrpcError('UNAVAILABLE', 'go away'))
  const waits = [2, 3, 4].map(async index => (await opened(index)) - (await opened(index - 1)))
  for (const [index, waitMs] of (await Promise.all(waits)).entries()) {
    const leastMs = [20, 40, 40][index] ?? 0
    assert.ok(waitMs >= leastMs - 2, `wait ${index} was ${waitMs} ms, at least ${leastMs} were due`)
  }
})

test('a stream that lasted longer than the wait is opened again at once', async t => {
  const server = await startServer(t)
  const hourMs = 3_600_000
  let nowMs = 0
  startFeed(t, server.address, {
    clock: { nowMs: () => nowMs, monotonicMs: () => nowMs },
    backoff: { initialMs: hourMs, maxMs: 8 * hourMs, factor: 2, jitter: 0 },
  })
  const first = await server.stream(0)
  await first.heard()
  first.send(response('v1', 'a:1'))
  await first.heard()
  nowMs += hourMs
  first.end(new GrpcError('UNAVAILABLE', 'go away'))
  // The server has nothing newer to send on these streams.
  for (const index of [1, 2]) {
    const stream = await server.stream(index)
    assert.equal(inShort(await stream.heard()), 'ack v1 ()')
    nowMs += hourMs
    stream.end()
  }
})

test('a stream that was never established is delayed, however long the attempt took', async t => {
  const [port = 0] = await freePorts(1)
  let nowMs = 0
  const { warnings } = startFeed(t, `127.0.0.1:${port}`, {
    clock: { nowMs: () => nowMs, monotonicMs: () => (nowMs += 3_000) },
  })
  await waitFor('the complaint', () => warnings.length > 0)
  assert.match(warnings.join(), /ECONNREFUSED .* 20$/)
})

test('an absent server is logged once, and connected when it starts', async t => {
  const [port = 0] = await freePorts(1)
  const { inForce, warnings, feed } = startFeed(t, `127.0.0.1:${port}`)
  await waitFor('the first complaint', () => warnings.length > 0)
  assert.deepEqual(warnings, [
    `connect to management server failed 127.0.0.1:${port} connect ECONNREFUSED 127.0.0.1:${port} 20`,
  ])
  const server = await startServer(t, { port })
  const stream = await server.stream(0)
  await stream.heard()
  stream.send(response('v1', 'a:1'))
  await stream.heard()
  assert.equal(inForce(), 'a:1')
  assert.equal(warnings.length, 1)
  await server.stop()
  await waitFor('the second complaint', () => warnings.length > 1)
  assert.equal(inForce(), 'a:1')
  await feed.stop()
})

test('stop resolves at once: in a stream, in a delay, and before the start', async t => {
  const server = await startServer(t)
  const running = startFeed(t, server.address)
  await (await server.stream(0)).heard()
  const [port = 0] = await freePorts(1)
  const connectRetryMs = 60_000
  const waiting = startFeed(t, `127.0.0.1:${port}`, { connectRetryMs })
  await waitFor('the wait', () => waiting.warnings.length > 0)
  const beganMs = performance.now()
  await Promise.all([running.feed.stop(), waiting.feed.stop()])
  assert.ok(performance.now() - beganMs < connectRetryMs / 2)
  await waiting.feed.stop()
})
