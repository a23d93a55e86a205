import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { Client, type ClientDuplexStream, credentials, type ServiceError, status } from '@grpc/grpc-js'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type Log, silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import {
  DiscoveryRequestSchema,
  type DiscoveryResponse,
  DiscoveryResponseSchema,
} from '@tollway/proto/envoy/service/discovery/v3/discovery'
import { discoveryPath } from './discovery.ts'
import { Feed } from './feed.ts'
import { createResource, createSnapshot, type Snapshot } from './snapshot.ts'

const typeUrl = 'type.googleapis.com/test.Thing'
const deadlineMs = 10_000

async function until(what: string, holds: () => boolean): Promise<void> {
  const endMs = performance.now() + deadlineMs
  while (!holds()) {
    assert.ok(performance.now() < endMs, `not within ${deadlineMs} ms: ${what}`)
    await pause(1)
  }
}

/**
 * Parses a snapshot, such as `a=1 b=2+windows`: resources with their contents and, after a plus, the features
 * that they need.
 */
function parse(text: string): Snapshot {
  const pairs = text.split(' ').filter(pair => pair !== '')
  return createSnapshot(
    typeUrl,
    pairs.map(pair => createResource(pair.split('=')[0] ?? '', Buffer.from(pair), pair.split('+').slice(1))),
  )
}

function show(response: DiscoveryResponse): string {
  return response.resources.map(({ value }) => Buffer.from(value).toString()).join(' ')
}

interface FeedTestOptions {
  readonly limits?: ConstructorParameters<typeof Feed>[0]['limits']
  readonly admit?: (client: { readonly uid: string }) => boolean
  readonly log?: Log
}

/** A feed behind a real server on a free port. */
async function startFeed(
  t: TestContext,
  { limits = {}, admit = () => true, log = silentLog }: FeedTestOptions = {},
) {
  const defects: unknown[] = []
  let streams = 0
  const ids = () => {
    streams += 1
    return `s${streams}`
  }
  const feed = new Feed({ typeUrls: [typeUrl], ids, clock: systemClock, log, admit, limits })
  const server = createGrpcServer({ methods: feed.methods, onDefect: (_, error) => defects.push(error) })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  t.after(async () => {
    feed.close()
    await server.drain(0)
    assert.deepEqual(defects, [])
  })
  const enforces = (text: string, ...uids: readonly string[]) => {
    const [resource] = parse(text).resources.values()
    assert.ok(resource)
    return feed.enforcement(typeUrl, uids)(resource)
  }
  return { feed, enforces, address: `127.0.0.1:${bound.port}` }
}

type Request = MessageInitShape<typeof DiscoveryRequestSchema>

interface Asked {
  readonly typeUrl: string
  readonly versionInfo: string
  readonly responseNonce: string
  readonly errorDetail: { readonly code: number; readonly message: string }
}

/** A minimal client: it collects the responses, and sends what the test passes to it. */
function connect(t: TestContext, address: string, uid = 'pod-1', features = '') {
  const client = new Client(address, credentials.createInsecure(), {
    'grpc.use_local_subchannel_pool': 1,
    'grpc.max_receive_message_length': -1,
  })
  const stream: ClientDuplexStream<Request, DiscoveryResponse> = client.makeBidiStreamRequest(
    discoveryPath,
    message => Buffer.from(toBinary(DiscoveryRequestSchema, create(DiscoveryRequestSchema, message))),
    bytes => fromBinary(DiscoveryResponseSchema, bytes),
  )
  const responses: DiscoveryResponse[] = []
  let ended: ServiceError | undefined
  stream.on('data', (response: DiscoveryResponse) => responses.push(response))
  stream.on('error', (error: ServiceError) => {
    ended = error
  })
  t.after(() => {
    stream.cancel()
    client.close()
  })
  const listed = features === '' ? {} : { 'tollway.features': features }
  const node = { id: 'test', metadata: { uid, pod: `${uid}-name`, namespace: 'shop', ...listed } }
  const ask = (request: Partial<Asked> = {}) => stream.write({ typeUrl, node, ...request })
  const latest = () => {
    const response = responses.at(-1)
    assert.ok(response, 'there is a response')
    return response
  }
  return {
    stream,
    responses,
    latest,
    ask,
    ended: () => ended,
    ack: () => ask({ versionInfo: latest().versionInfo, responseNonce: latest().nonce }),
    nack: (message: string) => ask({ responseNonce: latest().nonce, errorDetail: { code: 3, message } }),
    async receives(count: number): Promise<string> {
      await until(`${count} responses`, () => responses.length >= count)
      assert.equal(responses.length, count)
      return show(latest())
    },
  }
}

test('a client that connects before the first sync gets all resources after it, and each change', async t => {
  const { feed, enforces, address } = await startFeed(t)
  const client = connect(t, address)
  client.ask()
  await until('the stream is known', () => feed.clients().length === 1)
  assert.deepEqual([client.responses, feed.published(typeUrl)], [[], undefined])

  feed.publish(parse('b=1 a=1'))
  assert.equal(await client.receives(1), 'a=1 b=1')
  const { versionInfo, typeUrl: type, nonce, resources } = client.latest()
  assert.deepEqual([versionInfo, type, nonce], [parse('a=1 b=1').version, typeUrl, 's1-0-1'])
  assert.deepEqual(
    resources.map(resource => resource.typeUrl),
    [typeUrl, typeUrl],
  )
  assert.deepEqual(enforces('a=1', 'pod-1').pending, ['pod-1'])
  client.ack()
  await until('the ACK counts', () => enforces('a=1', 'pod-1').acknowledged.has('pod-1'))

  feed.publish(parse('a=1 b=1'))
  feed.publish(parse('a=2 b=1'))
  assert.equal(await client.receives(2), 'a=2 b=1')
})

test('a rejected resource is reported and withheld, and delays no other resource', async t => {
  const { feed, enforces, address } = await startFeed(t)
  let changes = 0
  feed.onChange(() => {
    changes += 1
  })
  const [picky, easy] = [connect(t, address, 'picky'), connect(t, address, 'easy')]
  feed.publish(parse('a=1 b=1'))
  for (const client of [picky, easy]) {
    client.ask()
    await client.receives(1)
    client.ack()
  }
  await until('both have it', () => enforces('a=1', 'picky', 'easy').acknowledged.size === 2)
  feed.publish(parse('a=2 b=2'))
  await Promise.all([picky.receives(2), easy.receives(2)])
  easy.ack()
  changes = 0
  picky.nack('a: is bad')
  assert.equal(await picky.receives(3), 'a=1 b=2')
  picky.ack()
  await until('b is in force', () => enforces('b=2', 'picky', 'easy').acknowledged.size === 2)
  assert.ok(changes >= 2)
  const { acknowledged, rejections } = enforces('a=2', 'picky', 'easy')
  assert.deepEqual([...acknowledged], ['easy'])
  assert.deepEqual(rejections, [{ uid: 'picky', pod: 'picky-name', message: 'is bad' }])
  assert.equal(easy.responses.length, 2)
})

test('a client that reconnects with a stale nonce gets a response, and acknowledges nothing', async t => {
  const { feed, enforces, address } = await startFeed(t)
  feed.publish(parse('a=1'))
  const first = connect(t, address, 'one')
  first.ask()
  await first.receives(1)
  first.stream.cancel()
  await until('the end of the stream', () => feed.clients().length === 0)

  const second = connect(t, address, 'one')
  second.ask({ versionInfo: parse('a=1').version, responseNonce: first.latest().nonce })
  assert.equal(await second.receives(1), 'a=1')
  assert.notEqual(second.latest().nonce, first.latest().nonce)
  assert.deepEqual(enforces('a=1', 'one').pending, ['one'])
  second.ack()
  await until('the ACK counts', () => enforces('a=1', 'one').acknowledged.has('one'))
})

test('another operator gives the same content the same version', async t => {
  const versions = []
  for (const content of ['a=1 b=1', 'b=1 a=1']) {
    const { feed, address } = await startFeed(t)
    feed.publish(parse(content))
    const client = connect(t, address)
    client.ask()
    await client.receives(1)
    versions.push(client.latest().versionInfo)
  }
  assert.equal(versions[0], versions[1])
})

test('one snapshot waits for a slow client, and the newest follows', async t => {
  const { feed, enforces, address } = await startFeed(t)
  const large = (number: number) => parse(`a=${String(number).repeat(1_000_000)}`)
  const [slow, quick] = [connect(t, address, 'slow'), connect(t, address, 'quick')]
  feed.publish(large(0))
  slow.stream.pause()
  slow.ask()
  quick.ask()
  for (let number = 1; number < 10; number += 1) {
    await quick.receives(number)
    quick.ack()
    feed.publish(large(number))
  }
  await quick.receives(10)
  slow.stream.resume()
  await slow.receives(1)
  slow.ack()
  assert.equal((await slow.receives(2)).slice(0, 3), 'a=9')
  slow.ack()
  await until('the slow one has it', () => enforces(show(slow.latest()), 'slow').acknowledged.size === 1)
  assert.equal(slow.responses.length, 2)
})

const manyStreams = process.env['SOAK'] === '1' ? 200 : 50

test(`${manyStreams} streams get a snapshot of 1 MB, though one of them never reads`, async t => {
  const { feed, address } = await startFeed(t, {
    limits: { permits: { maxBytes: 16_000_000, maxHoldMs: 200 } },
  })
  const clients = Array.from({ length: manyStreams }, (_, index) => connect(t, address, `pod-${index}`))
  for (const client of clients) client.ask()
  clients[0]?.stream.pause()
  await until('all are there', () => feed.clients().length === clients.length)
  feed.publish(parse(Array.from({ length: 100 }, (_, index) => `r${index}=${'x'.repeat(10_000)}`).join(' ')))
  await Promise.all(clients.slice(1).map(client => client.receives(1)))
})

test('a type that the feed does not have is reported once, and gets no response', async t => {
  const warnings: string[] = []
  const log = { ...silentLog, warn: (message: string) => void warnings.push(message) }
  const { feed, address } = await startFeed(t, { log })
  feed.publish(parse('a=1'))
  const client = connect(t, address)
  client.ask({ typeUrl: 'type.googleapis.com/other' })
  client.ask({ typeUrl: 'type.googleapis.com/other' })
  client.ask()
  assert.equal(await client.receives(1), 'a=1')
  assert.deepEqual(warnings, ['ignore request for an unknown type'])
})

test('a client that is not admitted gets nothing', async t => {
  const { feed, address } = await startFeed(t, { admit: ({ uid }) => uid === 'known' })
  feed.publish(parse('a=1'))
  const [stranger, known] = [connect(t, address, 'stranger'), connect(t, address, 'known')]
  stranger.ask()
  known.ask()
  assert.equal(await known.receives(1), 'a=1')
  await until('the rejection of the stranger', () => stranger.ended() !== undefined)
  assert.equal(stranger.ended()?.code, status.PERMISSION_DENIED)
  assert.deepEqual(
    feed.clients().map(({ uid, pod, namespace, nodeId }) => [uid, pod, namespace, nodeId]),
    [['known', 'known-name', 'shop', 'test']],
  )
})

test('a stream beyond the maximum is closed with a message', async t => {
  const { feed, address } = await startFeed(t, { limits: { maxStreams: 1 } })
  connect(t, address, 'one').ask()
  await until('the first is there', () => feed.clients().length === 1)
  const second = connect(t, address, 'two')
  second.ask()
  await until('the rejection of the second', () => second.ended() !== undefined)
  assert.equal(second.ended()?.code, status.RESOURCE_EXHAUSTED)
})

test('a snapshot beyond the limit is rejected, and the previous one stays', async t => {
  const { feed } = await startFeed(t, { limits: { maxSnapshotBytes: 10 } })
  feed.publish(parse('a=1'))
  assert.throws(
    () => feed.publish(parse('a=1234567890')),
    /12 bytes in 1 resources, at most 10 bytes are allowed/,
  )
  assert.throws(() => feed.publish(createSnapshot('other', [])), /the feed has no type other, only type/)
  assert.equal(feed.published(typeUrl)?.version, parse('a=1').version)
})

test('the end of the feed closes the streams of its clients with UNAVAILABLE', async t => {
  const { feed, address } = await startFeed(t)
  feed.publish(parse('a=1'))
  const client = connect(t, address)
  client.ask()
  await client.receives(1)
  feed.close()
  await until('the stream has ended', () => client.ended() !== undefined)
  assert.equal(client.ended()?.code, status.UNAVAILABLE)
  assert.deepEqual(feed.clients(), [])
})

test('a client that returns with a feature gets the resources that need it', async t => {
  const { feed, enforces, address } = await startFeed(t)
  feed.publish(parse('a=1 b=1+windows c=1+windows+calendar'))
  const old = connect(t, address, 'pod-1')
  const newer = connect(t, address, 'pod-2', 'windows,calendar,later')
  old.ask()
  newer.ask()
  assert.equal(await old.receives(1), 'a=1')
  assert.equal(await newer.receives(1), 'a=1 b=1+windows c=1+windows+calendar')
  old.ack()
  newer.ack()
  const content = 'c=1+windows+calendar'
  await until('the ACKs count', () => enforces('a=1', 'pod-1', 'pod-2').acknowledged.size === 2)
  const { acknowledged, pending, lacking } = enforces(content, 'pod-1', 'pod-2')
  assert.deepEqual([...acknowledged], ['pod-2'])
  assert.deepEqual(pending, ['pod-1'])
  assert.deepEqual(lacking, [{ uid: 'pod-1', features: ['windows', 'calendar'] }])

  old.stream.cancel()
  const upgraded = connect(t, address, 'pod-1', 'windows,calendar')
  upgraded.ask({ versionInfo: old.latest().versionInfo })
  assert.equal(await upgraded.receives(1), 'a=1 b=1+windows c=1+windows+calendar')
  upgraded.ack()
  await until(
    'the upgraded pod enforces it',
    () => enforces(content, 'pod-1', 'pod-2').acknowledged.size === 2,
  )
  assert.deepEqual(enforces(content, 'pod-1', 'pod-2').lacking, [])
})
