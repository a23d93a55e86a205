import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import type { Call, Codec, Metadata } from '@tollway/grpc/server.ts'
import {
  type RateLimitQuotaResponse,
  RateLimitQuotaResponseSchema,
  RateLimitQuotaUsageReportsSchema,
} from '@tollway/proto/envoy/service/rate_limit_quota/v3/rlqs'
import { waitFor } from '../../../test/support/wait-for.ts'
import type { QuotaAssignment, QuotaUsage } from '../quota/quota-buckets.ts'
import { createStats } from '../stats/stats.ts'
import { quotaMethods } from './quota-methods.ts'

const path = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas'
type Reports = MessageInitShape<typeof RateLimitQuotaUsageReportsSchema>

const encode = (reports: Reports) =>
  toBinary(RateLimitQuotaUsageReportsSchema, create(RateLimitQuotaUsageReportsSchema, reports))
const codec: Codec<RateLimitQuotaResponse, Uint8Array> = {
  encode: bytes => bytes,
  decode: bytes => fromBinary(RateLimitQuotaResponseSchema, bytes),
}

/** A member that keeps what it is told, and answers with what the test says. */
class Told {
  readonly identities: string[] = []
  readonly usages: QuotaUsage[] = []
  closed = 0
  answer: (usages: readonly QuotaUsage[]) => readonly QuotaAssignment[] = () => []
  push: (assignments: readonly QuotaAssignment[]) => void = () => {}

  count() {
    return { streams: this.identities.length - this.closed, buckets: 2, shares: 4 }
  }

  open(identity: string, push: Told['push']) {
    this.identities.push(identity)
    this.push = push
    return {
      report: async (usages: readonly QuotaUsage[]) => {
        this.usages.push(...usages)
        return this.answer(usages)
      },
      close: () => {
        this.closed += 1
      },
    }
  }
}

async function start(t: TestContext, { memoryBytes = 128 * 1024 * 1024 } = {}) {
  const told = new Told()
  const now = { ms: 0 }
  const clock = { nowMs: () => now.ms, monotonicMs: () => now.ms }
  const ending = new AbortController()
  const stats = createStats()
  const server = createGrpcServer({
    methods: quotaMethods({ buckets: told, stats, clock, ending: ending.signal, memoryBytes }),
    onDefect: (where, error) => assert.fail(`${where}: ${error}`),
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  const client = createGrpcClient(`127.0.0.1:${bound.port}`)
  t.after(() => {
    client.close()
    return server.drain(0)
  })
  return {
    told,
    now,
    ending,
    stats: () =>
      new Map(stats.entries().map(({ name, value }) => [name.replace('ratelimit.quota.', ''), value])),
    /** Opens a stream. Its answers, and its error, are in what is returned. */
    open(metadata?: Metadata) {
      const cancelling = new AbortController()
      const { signal } = cancelling
      const call = client.bidi<Uint8Array, RateLimitQuotaResponse>(path, codec, { metadata, signal })
      const answers: RateLimitQuotaResponse[] = []
      const read = async () => {
        for await (const answer of call.messages) answers.push(answer)
        return 'OK'
      }
      const ended = read().catch((error: Error) => error.message)
      return {
        answers,
        ended,
        end: () => call.end(),
        cancel: () => cancelling.abort(),
        sendBytes: (bytes: Uint8Array) => call.write(bytes),
        send: (...usages: NonNullable<Reports['bucketQuotaUsages']>) =>
          call.write(encode({ domain: 'shop', bucketQuotaUsages: usages })),
        /** Resolves when the service has read so many usages. */
        told: (count: number) => waitFor(`${count} usages`, () => told.usages.length >= count),
      }
    },
  }
}

const bucketId = (bucket: Record<string, string>) => ({ bucketId: { bucket } })
const seconds = (value: number, nanos = 0) => ({ timeElapsed: { seconds: BigInt(value), nanos } })
const toMessage = (...bucketQuotaUsages: NonNullable<Reports['bucketQuotaUsages']>) =>
  Buffer.from(encode({ domain: 'shop', bucketQuotaUsages }))

/** Returns the method itself, so that a test decides when each message arrives. */
function methodOf(
  buckets: Parameters<typeof quotaMethods>[0]['buckets'],
  { ending = new AbortController(), memoryBytes = 1e9 } = {},
): (messages: AsyncIterable<Buffer>) => AsyncIterable<Uint8Array> {
  const clock = { nowMs: () => 0, monotonicMs: () => 0 }
  const options = { buckets, stats: createStats(), clock, ending: ending.signal, memoryBytes }
  const [method] = quotaMethods(options)
  assert.ok(method?.kind === 'bidi')
  const call = { metadata: new Map(), peer: '127.0.0.1:1' } as unknown as Call
  return messages => method.handle(messages, call) as AsyncIterable<Uint8Array>
}

test('reads reports, and knows a bucket again in any order and spelling', async t => {
  const { told, open } = await start(t)
  const stream = open()
  const user = bucketId({ user: 'ålice', path: '/' })
  await stream.send(
    { ...user, ...seconds(0), numRequestsAllowed: 1n },
    { ...bucketId({ user: 'bob' }), numRequestsDenied: 7n },
  )
  await stream.send(
    { ...bucketId({ user: 'bob' }), ...seconds(5, 500_000_000), numRequestsDenied: 300n },
    { ...bucketId({ path: '/', user: 'ålice' }), ...seconds(5), numRequestsAllowed: 2n },
  )
  await stream.told(4)
  const [alice, bob, bobAgain, aliceAgain] = told.usages
  assert.deepEqual(alice?.bucket.entries, [
    { key: 'path', value: '/' },
    { key: 'user', value: 'ålice' },
  ])
  assert.equal(alice?.bucket.domain, 'shop')
  assert.deepEqual([alice?.allowed, alice?.denied, alice?.elapsedMs], [1, 0, 0])
  assert.equal(aliceAgain?.bucket, alice?.bucket)
  assert.equal(bobAgain?.bucket, bob?.bucket)
  assert.deepEqual([bobAgain?.allowed, bobAgain?.denied, bobAgain?.elapsedMs], [0, 300, 5500])
})

test('takes the time between two reports if the sent one is it in whole seconds', async t => {
  const { told, now, open } = await start(t)
  const stream = open()
  const report = async (atMs: number, ...elapsed: readonly [number, number?]) => {
    now.ms = atMs
    await stream.send({ ...bucketId({ a: 'b' }), ...seconds(...elapsed) })
    await stream.told(told.usages.length + 1)
    return told.usages.at(-1)?.elapsedMs
  }
  assert.equal(await report(1000, 3), 3000, 'the first report of a stream')
  assert.equal(await report(5999, 4), 4999)
  assert.equal(await report(10_999, 5), 5000)
  assert.equal(await report(19_000, 5), 6000, 'the second report was late')
  assert.equal(await report(20_000, 5), 5000, 'the first report was late')
  assert.equal(await report(25_000, 5, 250_000_000), 5250, 'a proxy that does not round')
})

test('encodes each kind of assignment', async t => {
  const { told, open } = await start(t)
  const stream = open()
  told.answer = usages =>
    usages.map(({ bucket }): QuotaAssignment => {
      const [entry] = bucket.entries
      if (entry?.value === 'abandon') return { bucket, action: 'abandon' }
      if (entry?.value === 'allow') return { bucket, action: 'allow', ttlSeconds: 15 }
      const limit = { tokensPerFill: 0xffffffff, maxTokens: 3, fillIntervalSeconds: 3600, ttlSeconds: 15 }
      return { bucket, action: 'limit', ...limit }
    })
  await stream.send(bucketId({ a: 'limit' }), bucketId({ a: 'allow' }), bucketId({ a: 'abandon' }))
  const [answer] = await waitFor('the answer', () => stream.answers.length > 0 && stream.answers)
  const actions = answer?.bucketAction.map(({ bucketId: id, bucketAction }) => {
    if (bucketAction.case !== 'quotaAssignmentAction') return [id?.bucket, bucketAction.case]
    const { assignmentTimeToLive, rateLimitStrategy } = bucketAction.value
    const { strategy } = rateLimitStrategy ?? {}
    if (strategy?.case !== 'tokenBucket') return [id?.bucket, assignmentTimeToLive?.seconds, strategy?.value]
    const { maxTokens, tokensPerFill, fillInterval } = strategy.value
    return [id?.bucket, assignmentTimeToLive?.seconds, maxTokens, tokensPerFill, fillInterval?.seconds]
  })
  assert.deepEqual(actions, [
    [{ a: 'limit' }, 15n, 3, 0xffffffff, 3600n],
    [{ a: 'allow' }, 15n, 0],
    [{ a: 'abandon' }, 'abandonAction'],
  ])
  await stream.send(bucketId({ a: 'limit' }), bucketId({ a: 'allow' }), bucketId({ a: 'abandon' }))
  await stream.told(6)
  assert.equal(told.usages[3]?.bucket, told.usages[0]?.bucket)
  assert.notEqual(told.usages[5]?.bucket, told.usages[2]?.bucket, 'an abandoned bucket is forgotten')
})

test('has statistics from the first stream on', async t => {
  const { told, open, stats } = await start(t, { memoryBytes: 6_000 })
  assert.deepEqual([...stats()], [])
  told.answer = usages => usages.map(({ bucket }) => ({ bucket, action: 'allow', ttlSeconds: 15 }))
  const stream = open()
  await stream.send(...['1', '2', '3', '4'].map(a => bucketId({ a })))
  await waitFor('the answer', () => stream.answers.flatMap(answer => answer.bucketAction).length === 4)
  const { memory_bytes, ...counted } = Object.fromEntries(stats())
  assert.ok(Number(memory_bytes) >= 6_000, `${memory_bytes}`)
  assert.deepEqual(counted, {
    'ratelimit_server.StreamRateLimitQuotas.total_requests': 1,
    streams: 1,
    buckets: 2,
    shares: 4,
    assignments: 3,
    abandoned_buckets: 1,
    rejected_buckets: 1,
  })
})

test('sends what is pushed, and ends with the stream', async t => {
  const { told, ending, open } = await start(t)
  const stream = open()
  await stream.send(bucketId({ a: '1' }))
  await stream.told(1)
  const [usage] = told.usages
  assert.ok(usage)
  told.push([{ bucket: usage.bucket, action: 'allow', ttlSeconds: 15 }])
  await waitFor('the assignment', () => stream.answers.length === 1)
  stream.end()
  assert.equal(await stream.ended, 'OK')
  assert.equal(told.closed, 1)
  const other = open()
  await other.send(bucketId({ a: '1' }))
  await other.told(2)
  ending.abort()
  assert.equal(await other.ended, 'OK')
  assert.equal(told.closed, 2)
  const late = open()
  await late.send(bucketId({ a: '1' }))
  assert.equal(await late.ended, 'OK', 'a stream that begins while the process stops')
})

test('names a proxy by tollway-member, or by its address', async t => {
  const { told, open } = await start(t)
  const named: readonly (readonly [Record<string, string>, string])[] = [
    [{ 'tollway-member': 'edge-1', 'x-forwarded-for': '10.0.0.1' }, 'edge-1'],
    [{ 'tollway-member': '', 'x-forwarded-for': '10.0.0.1' }, '10.0.0.1'],
    [{}, '127.0.0.1'],
    [{ 'tollway-member': 'x'.repeat(1000) }, 'x'.repeat(256)],
  ].map(([metadata, name]) => [metadata as Record<string, string>, name as string])
  for (const [metadata, name] of named) {
    const values = Object.entries(metadata).filter(([, value]) => value !== '')
    const stream = open(new Map(values.map(([key, value]) => [key, [value]])))
    await stream.send(bucketId({ a: '1' }))
    await waitFor('the member', () => told.identities.at(-1) === name)
    stream.end()
    await stream.ended
  }
})

test('rejects a stream without a domain, with two domains, and with malformed messages', async t => {
  const { open } = await start(t)
  const cases: readonly (readonly [string, readonly Uint8Array[], RegExp])[] = [
    ['no domain', [encode({})], /domain: must not be empty/],
    [
      'a second domain',
      [encode({ domain: 'a' }), encode({ domain: 'b' })],
      /domain: expected "a" of the first report, since a stream has one domain, found "b"/,
    ],
    ['a truncated message', [Buffer.of(0x0a, 0x7f)], /the message cannot be decoded/],
    ['a truncated usage', [Buffer.of(0x0a, 1, 97, 0x12, 0x7f, 0x0a)], /the message cannot be decoded/],
    [
      'an id beyond its usage',
      [Buffer.of(0x0a, 1, 97, 0x12, 2, 0x0a, 9, 1, 1, 1, 1, 1, 1, 1, 1, 1)],
      /cannot be decoded/,
    ],
    [
      'no UTF-8',
      [Buffer.of(0x0a, 1, 97, 0x12, 8, 0x0a, 6, 0x0a, 4, 0x0a, 2, 0xc3, 0x28)],
      /cannot be decoded/,
    ],
    ['an endless varint', [Buffer.alloc(99, 0xff)], /cannot be decoded/],
  ]
  for (const [name, messages, expected] of cases) {
    const stream = open()
    for (const message of messages) await stream.sendBytes(message)
    assert.match(await stream.ended, expected, name)
  }
})

test('clamps negative and huge numbers', async t => {
  const { told, open } = await start(t)
  const stream = open()
  const most = 2n ** 64n - 1n
  await stream.send(
    { ...bucketId({ a: '1' }), numRequestsAllowed: most, numRequestsDenied: most, ...seconds(-1, -1) },
    { ...bucketId({ a: '2' }), timeElapsed: { seconds: 2n ** 62n, nanos: 0 } },
  )
  await stream.told(2)
  assert.deepEqual([told.usages[0]?.allowed, told.usages[0]?.denied], [1e12, 1e12])
  for (const { elapsedMs } of told.usages) assert.ok(elapsedMs >= 0 && elapsedMs <= 3_600_000, `${elapsedMs}`)
})

test('an id of 1 MB is not kept: its bucket is abandoned when it has no requests', async t => {
  const { told, open } = await start(t)
  const stream = open()
  const long = bucketId({ user: 'x'.repeat(1024 * 1024) })
  await stream.send({ ...long, numRequestsAllowed: 1n })
  await stream.send({ ...long, numRequestsAllowed: 0n })
  const [answer] = await waitFor('the answer', () => stream.answers.length > 0 && stream.answers)
  assert.equal(answer?.bucketAction.length, 1)
  assert.equal(answer?.bucketAction[0]?.bucketAction.case, 'abandonAction')
  assert.equal(answer?.bucketAction[0]?.bucketId?.bucket['user']?.length, 1024 * 1024)
  assert.equal(told.usages.length, 0)
})

test('keeps few ids for a proxy that does not read what it is told', async () => {
  const handle = methodOf(new Told(), { memoryBytes: 1e6 })
  const answered = Promise.withResolvers<void>()
  const sent = Promise.withResolvers<void>()
  async function* reports() {
    for (let nth = 0; nth < 50; nth++) {
      const usage = bucketId({ user: `${nth}`.padEnd(100_000, 'x') })
      yield toMessage(usage)
      await answered.promise
    }
    sent.resolve()
    await new Promise(() => {})
  }
  const answers = handle(reports())[Symbol.asyncIterator]()
  await answers.next()
  answered.resolve()
  await sent.promise
  const { value } = await answers.next()
  assert.equal(codec.decode(value).bucketAction.length, 1)
})

test('lets other work run between the parts of a large report', async t => {
  const { told, open } = await start(t)
  const parts: number[] = []
  let turns = 0
  const turn = setInterval(() => {
    turns += 1
  }, 0)
  t.after(() => clearInterval(turn))
  const seen: number[] = []
  told.answer = usages => {
    parts.push(usages.length)
    seen.push(turns)
    return []
  }
  const stream = open()
  await stream.send(...Array.from({ length: 5_000 }, (_, nth) => bucketId({ user: `${nth}` })))
  await stream.told(5_000)
  assert.deepEqual(new Set(parts), new Set([500]))
  assert.ok((seen.at(-1) ?? 0) > (seen[0] ?? 0), `${seen}`)
})

const manyUsers = (prefix: string, requests = 1n, count = 5_000) =>
  Array.from({ length: count }, (_, nth) => ({
    ...bucketId({ user: `${prefix}${nth}` }),
    numRequestsAllowed: requests,
  }))

test('answers one large report after the other, and small ones meanwhile', async t => {
  const { told, open } = await start(t)
  const [first, second, third] = [open(), open(), open()]
  told.answer = ([usage]) => {
    if (usage?.bucket.entries[0]?.value === 'a0') {
      void second.send(...manyUsers('b'))
      void third.send(bucketId({ user: 'c' }))
    }
    return []
  }
  await first.send(...manyUsers('a', 1n, 20_000))
  await first.told(25_001)
  const order = told.usages.map(({ bucket }) => bucket.entries[0]?.value.slice(0, 1)).join('')
  assert.match(order, /^a+ca+b+$/)
})

/** Returns what is reported of a stream whose reports all arrive while that of another one is answered. */
async function reportsWhileWaiting(...reports: readonly NonNullable<Reports['bucketQuotaUsages']>[]) {
  const seen: string[] = []
  const begun = Promise.withResolvers<void>()
  const held = Promise.withResolvers<void>()
  const settled = Promise.withResolvers<void>()
  const report = async (usages: readonly QuotaUsage[], isSuperseded = false) => {
    const [usage] = usages
    if (usage?.bucket.entries[0]?.value === 'a0') {
      begun.resolve()
      await held.promise
    } else if (usage?.bucket.entries[0]?.value === 'b0') {
      seen.push(`${usage.allowed}${isSuperseded ? ' superseded' : ''}`)
      if (usage.allowed === reports.length) settled.resolve()
    }
    return []
  }
  const handle = methodOf({
    open: () => ({ report, close() {} }),
    count: () => ({ streams: 2, buckets: 0, shares: 0 }),
  })
  const serve = async (messages: AsyncIterable<Buffer>) => {
    for await (const _ of handle(messages));
  }
  async function* first() {
    yield toMessage(...manyUsers('a'))
    await settled.promise
  }
  async function* second() {
    for (const each of reports) yield toMessage(...each)
    await settled.promise
  }
  const served = [serve(first())]
  await begun.promise
  served.push(serve(second()))
  for (let turns = 0; turns < 50; turns += 1) await new Promise(setImmediate)
  held.resolve()
  await Promise.all(served)
  return [...new Set(seen)]
}

test('reads a report that waits when the next one has the same buckets, and answers that', async () => {
  assert.deepEqual(await reportsWhileWaiting(manyUsers('b', 1n), manyUsers('b', 2n), manyUsers('b', 3n)), [
    '1 superseded',
    '2 superseded',
    '3',
  ])
  const without = manyUsers('b', 2n).filter((_, nth) => nth !== 100)
  assert.deepEqual(await reportsWhileWaiting(manyUsers('b', 1n), without), ['1', '2'])
  const idle = manyUsers('b', 1n).map((usage, nth) =>
    nth === 100 ? { ...usage, numRequestsAllowed: 0n } : usage,
  )
  assert.deepEqual(await reportsWhileWaiting(idle, without), ['1 superseded', '2'])
})

test('reports nothing of a stream that ends within a large report', async t => {
  const { told, open } = await start(t)
  let closedBefore = 0
  told.answer = usages => {
    closedBefore = told.closed
    return usages.map(({ bucket }) => ({ bucket, action: 'abandon' }))
  }
  const stream = open()
  await stream.send(...Array.from({ length: 20_000 }, (_, nth) => bucketId({ user: `${nth}` })))
  await stream.told(500)
  stream.cancel()
  await waitFor('the end of the stream', () => told.closed === 1)
  const atEnd = told.usages.length
  assert.ok(atEnd < 20_000, 'it ended within the report')
  for (let turns = 0; turns < 100; turns += 1) await new Promise(setImmediate)
  assert.deepEqual([told.usages.length, closedBefore], [atEnd, 0])
})

test('reports nothing more when the process ends, neither what waits nor a new stream', async () => {
  const ending = new AbortController()
  let reports = 0
  const report = async () => {
    reports += 1
    ending.abort()
    return []
  }
  const buckets = {
    open: () => ({ report, close() {} }),
    count: () => ({ streams: 1, buckets: 0, shares: 0 }),
  }
  const handle = methodOf(buckets, { ending })
  async function* messages() {
    for (const user of ['a', 'b']) yield toMessage(bucketId({ user }))
  }
  for (let streams = 0; streams < 2; streams += 1) {
    for await (const _ of handle(messages()));
    for (let turns = 0; turns < 50; turns += 1) await new Promise(setImmediate)
  }
  assert.equal(reports, 1)
})

test('an id without entries is ignored', async t => {
  const { told, open } = await start(t)
  const stream = open()
  await stream.send(bucketId({}), { numRequestsAllowed: 3n }, bucketId({ a: '1' }))
  await stream.told(1)
  assert.equal(told.usages.length, 1)
  assert.equal(stream.answers.length, 0)
})

test('keeps 20,000 buckets of a stream, and abandons others when they have no requests', async t => {
  const { told, open } = await start(t)
  const stream = open()
  for (let batch = 0; batch < 10; batch++) {
    const usages = Array.from({ length: 10_000 }, (_, index) => ({
      ...bucketId({ user: `${batch}-${index}` }),
      numRequestsAllowed: 1n,
    }))
    await stream.send(...usages)
  }
  await stream.send({ ...bucketId({ user: '5-3' }) }, { ...bucketId({ user: '0-3' }) })
  await stream.told(20_001)
  await waitFor('the abandon', () => stream.answers.length === 1)
  assert.equal(told.usages.length, 20_001)
  assert.deepEqual(stream.answers[0]?.bucketAction[0]?.bucketId?.bucket, { user: '5-3' })
})

test('all streams have one memory, which a stream returns at its end', async t => {
  const { told, open } = await start(t, { memoryBytes: 40_000 })
  const ids = (prefix: string) =>
    Array.from({ length: 100 }, (_, index) => bucketId({ user: `${prefix}${index}` }))
  const [first, second] = [open(), open()]
  await first.send(...ids('a'))
  await waitFor('the abandons', () => first.answers.length === 1)
  const kept = told.usages.length
  assert.ok(kept > 10 && kept < 30, `${kept}`)
  assert.equal(first.answers[0]?.bucketAction.length, 100 - kept)
  await second.send(...ids('b'))
  await waitFor('the abandons', () => second.answers.length === 1)
  assert.equal(second.answers[0]?.bucketAction.length, 100)
  first.end()
  await first.ended
  await second.send(...ids('b'))
  await second.told(2 * kept)
})
