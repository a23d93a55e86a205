import assert from 'node:assert/strict'
import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { type TestContext, test } from 'node:test'
import { create, fromBinary, toBinary } from '@bufbuild/protobuf'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import type { AnyMethod } from '@tollway/grpc/server.ts'
import { GrpcError, statusName } from '@tollway/grpc/status.ts'
import { SessionReportSchema } from '@tollway/proto/tollway/operator/v1/counters'
import { QueryAnswerSchema, QueryRequestSchema } from '@tollway/proto/tollway/operator/v1/leader'
import { BrokerReportSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { createAuthority } from '../../services/grpc/server/testing/contract/certificates.ts'
import { waitFor } from '../../test/support/wait-for.ts'
import { brokerSessions } from '../broker-queries/broker-session.ts'
import type { Brokers, PreviewResult } from '../broker-queries/brokers.ts'
import type { PreviewPage, RequestOnPage } from '../broker-queries/read-pages.ts'
import { QueryError } from '../pods/query-error.ts'
import { encodedCodec } from '../pods/session-table.ts'
import { loadReportPath } from '../pods/stream-loads.ts'
import type { PodSessions } from '../ratelimit-queries/pod-sessions.ts'
import { processSessionPath } from '../ratelimit-queries/process-session.ts'
import { playedReservations, playedShares, playPods } from '../testing/played-pods.ts'
import { startOperator as startOperatorOf, tlsOf } from '../testing/start-operator.ts'
import { brokersViaLeader, feedStatesViaLeader, podSessionsViaLeader } from './ask-leader.ts'
import type { FeedStates } from './feed-states.ts'
import { leaderMethods, leaderPath } from './leader-service.ts'
import { decodeAnswer, decodeQuery, encodeQuery, readAnswer } from './query-messages.ts'

const replica = (uid: string) => ({ uid, name: uid, reason: '' })
const infrastructure = {
  observe: (workload: string) => (workload === 'ratelimit' ? [replica('a')] : [replica('b')]),
}

const startOperator = (t: TestContext, methods?: (present: readonly AnyMethod[]) => readonly AnyMethod[]) =>
  startOperatorOf(t, { infrastructure, ...(methods && { methods }) })

/** Returns the methods of an operator of a version without LeaderService. */
const withoutService = (present: readonly AnyMethod[]) =>
  present.filter(({ path }) => !path.includes('LeaderService'))

const processHello = toBinary(
  SessionReportSchema,
  create(SessionReportSchema, { report: { case: 'hello', value: { uid: 'a', pod: 'a', backend: 'redis' } } }),
)
const processDomain = toBinary(
  SessionReportSchema,
  create(SessionReportSchema, {
    report: { case: 'totals', value: { domains: [{ domain: 'shop', rules: 1, whole: true }] } },
  }),
)
const brokerHello = toBinary(
  BrokerReportSchema,
  create(BrokerReportSchema, { report: { case: 'hello', value: { uid: 'b', pod: 'b' } } }),
)

type Caller = Parameters<typeof tlsOf>[0]

/** Opens a call with these messages. `end` resolves with the status at its end. */
function openCall(t: TestContext, who: Caller, address: string, path: string, ...messages: Uint8Array[]) {
  const client = createGrpcClient(address, { tls: tlsOf(who) })
  const ending = new AbortController()
  t.after(() => {
    ending.abort()
    client.close()
  })
  const call = client.bidi(path, encodedCodec, { signal: ending.signal })
  for (const message of messages) void call.write(message)
  const received: Uint8Array[] = []
  const end = (async () => {
    try {
      for await (const message of call.messages) received.push(message)
      return 'OK'
    } catch (error) {
      assert.ok(error instanceof GrpcError)
      return `${statusName(error.code)}: ${error.message}`
    }
  })()
  return { call, end, received }
}

const methods: readonly Parameters<typeof leaderPath>[0][] = [
  'Acknowledge',
  'ReportLoads',
  'PassRateLimitSession',
  'PassBrokerSession',
  'Query',
]

test('only an operator may call LeaderService, and no message of another caller is read', async t => {
  const { address, lines } = await startOperator(t)
  // The message cannot be decoded, so the expected error shows that the caller was rejected before that.
  const malformed = Uint8Array.of(0xff)
  for (const method of methods) {
    const { end } = openCall(t, 'pod', address, leaderPath(method), malformed)
    assert.match(
      await end,
      new RegExp(`^PERMISSION_DENIED: only an operator may call ${method}: .*DNS:pods.system.svc`),
    )
    assert.ok(lines.some(line => line.startsWith('reject call') && line.includes(method)))
    const stranger = createAuthority('stranger').issue('operator.system.svc')
    assert.match(await openCall(t, stranger, address, leaderPath(method)).end, /^UNAVAILABLE/)
  }
})

for (const method of methods)
  test(`a malformed message to ${method} ends the call, and other calls continue`, async t => {
    const leader = await startOperator(t)
    const { end } = openCall(t, 'operator', leader.address, leaderPath(method), Uint8Array.of(0xff))
    assert.match(await end, /^INVALID_ARGUMENT: decode a /)
    const query = openCall(t, 'operator', leader.address, leaderPath('Query'), encodeQuery('pods', {}))
    assert.equal(await query.end, 'OK')
  })

const emptyQuery = toBinary(QueryRequestSchema, create(QueryRequestSchema))

const hostile: readonly (readonly [string, readonly Uint8Array[], RegExp | object])[] = [
  ['a query of a later version', [emptyQuery], /^UNIMPLEMENTED: this version does not know the query/],
  ['a call without a query', [], /^INVALID_ARGUMENT: the call has no query/],
  [
    'a raise by a number that is not finite',
    [encodeQuery('raise', { at: { domain: 'shop', entries: [] }, by: Number.NaN })],
    { code: 'invalid', field: 'by' },
  ],
  ['a raise without an address', [encodeQuery('raise', { by: 1 })], { code: 'no-pods' }],
  ['a page of a fraction', [encodeQuery('pods', { limit: 0.5 })], { code: 'invalid', field: 'limit' }],
  [
    'a page of rules without a page',
    [encodeQuery('rules', { domain: 'shop', sumsOnly: false })],
    { code: 'no-pods' },
  ],
]
for (const [name, messages, expected] of hostile)
  test(`${name} is answered by an error that names it`, async t => {
    const { address } = await startOperator(t)
    const { call, end, received } = openCall(t, 'operator', address, leaderPath('Query'), ...messages)
    call.end()
    const status = await end
    if (expected instanceof RegExp) assert.match(status, expected)
    else {
      const [answer = assert.fail(status)] = received
      assert.throws(() => readAnswer('pods', decodeAnswer(answer)), expected)
    }
  })

test('an answer to another query, and an unknown one, is an error', () => {
  const answerOf = (answer: object) =>
    fromBinary(QueryAnswerSchema, toBinary(QueryAnswerSchema, create(QueryAnswerSchema, answer)))
  const deadline = { name: 'QueryError', code: 'deadline' }
  const other = answerOf({ answer: { case: 'domains', value: {} } })
  assert.throws(() => readAnswer('pods', other), { ...deadline, message: /answered pods with domains/ })
  assert.throws(() => readAnswer('pods', answerOf({})), {
    ...deadline,
    message: /an answer of a later version/,
  })
  const failure = answerOf({ answer: { case: 'failure', value: { code: 99, message: 'new' } } })
  assert.throws(() => readAnswer('pods', failure), { ...deadline, message: 'new' })
})

test('a number of a query and of its answer is the same at the other operator', () => {
  for (const by of [0.1, -1, 2 ** 53, Number.NaN, Number.POSITIVE_INFINITY]) {
    const { fields } = decodeQuery(encodeQuery('raise', { at: { domain: 'd', entries: [] }, by }))
    assert.deepEqual(fields, { at: { domain: 'd', entries: [] }, by })
  }
  assert.deepEqual(decodeQuery(encodeQuery('pods', { limit: 0 })).fields, { limit: 0 })
  assert.deepEqual(decodeQuery(encodeQuery('pods', {})).fields, {})
})

const request: RequestOnPage = {
  ...{ streamId: 's', requestId: 'r', targetObjectId: 't', sourceServiceId: 'u', route: '' },
  ...{ ageMs: 0.5, ended: false, end: null, producer: null, messages: null, bytes: null, consumers: [] },
}
const messages = { messages: 3, times: [0.25], blendShapes: [{ name: 'jaw', values: [-0.5, 1] }] }
const preview: PreviewPage = {
  ...{ key: 'k', streamId: 's', requestId: 'r', targetObjectId: 't', ended: true },
  preview: {
    ...messages,
    seconds: null,
    audio: { samplesPerSecond: 16_000, channelCount: 1, envelope: [[-0.5, 0.5], null, [0, 0]] },
  },
}
const previews: Readonly<Record<string, PreviewResult>> = {
  whole: { preview },
  silent: { preview: { ...preview, preview: { ...messages, audio: null, seconds: { from: 0, to: 1 } } } },
  old: { preview: { ...preview, preview: null } },
  failed: { problem: 'b: does not answer' },
}
const brokers: Brokers = {
  list: async () => [
    { address: 'a', problem: 'does not answer' },
    {
      address: 'b',
      page: {
        ...{ waitingPulls: 2, total: 3 },
        streams: [
          request,
          {
            ...{ ...request, key: 'k', producer: 'p', messages: 0, bytes: 7, ended: true },
            end: { how: 'interrupted', code: 'INFO', message: '' },
            consumers: [{ peer: 'c', messagesBehind: 1, bytesBehind: 2 }],
          },
          { ...request, end: { how: 'completed' } },
        ],
      },
    },
  ],
  preview: async key => previews[key] ?? { unknown: true },
}
const feedStates: FeedStates = {
  read: async (typeUrl, names) => ({
    version: typeUrl,
    versions: [{ version: '', pods: 2 }],
    rejections: Object.fromEntries(
      names.map(name => [name, { shown: [{ pod: 'p', message: 'no' }], unlisted: 7 }]),
    ),
  }),
}

test('an operator passes on what its leader answers to each query, unchanged', async t => {
  const pods = playPods()
  const local = { pods, brokers, feedStates }
  const methods = leaderMethods({
    ...{ operatorName: 'operator.system.svc', queried: local, log: silentLog },
    peers: { receive: async function* () {} },
    loads: { receive: async () => {} },
    rateLimitSessions: { serve: async function* () {} },
    brokerSessions: { serve: async function* () {} },
  })
  const { address } = await startOperator(t, present => [...withoutService(present), ...methods])
  const follower = await startOperator(t)
  follower.leader.setLeader(address)
  const nowhere = {} as never
  const [podsThere, brokersThere, statesThere] = [
    podSessionsViaLeader(nowhere, follower.leader),
    brokersViaLeader(nowhere, follower.leader),
    feedStatesViaLeader(nowhere, follower.leader),
  ]
  const at = { domain: 'checkout', entries: [{ key: 'user', value: 'alice' }] }
  const once: readonly ((of: PodSessions) => Promise<unknown>)[] = [
    of => of.pods(),
    of => of.domains({ limit: 3 }),
    of => of.rules('checkout'),
    of => of.counter(at),
    of => of.raise(at, 2),
    of => of.reset(at),
    of => of.top({ domain: 'checkout', rule: 'checkout.user', by: 'rejected' }),
    of => of.history({ domains: ['checkout'] }),
    of =>
      Array.fromAsync(
        of.whatIf({ domain: 'checkout', resource: Buffer.from('x') }, AbortSignal.timeout(9_000)),
      ),
    of => first(of.series({ domain: 'checkout' }, AbortSignal.timeout(9_000))),
    of => first(of.tap({ domain: 'checkout', rule: 'checkout.user' }, AbortSignal.timeout(9_000))),
  ]
  for (const call of once) {
    const expected = await call(playPods())
    assert.deepEqual(await call(podsThere), expected)
  }
  for (const reserved of [
    { reservations: playedReservations },
    { reservationsProblem: 'NOPERM' },
    { shares: playedShares },
    { shares: { ...playedShares, problem: 'READONLY' } },
    {}, // An operator of an earlier version knows nothing of them.
  ]) {
    pods.reserved = reserved
    const { missing: _, counters: __, ...told } = await podsThere.counter(at)
    assert.deepEqual(told, reserved)
  }
  await waitFor('the end of the streams at the leader', () => pods.open === 0)
  assert.deepEqual(await brokersThere.list(), await brokers.list())
  for (const key of [...Object.keys(previews), 'unknown'])
    assert.deepEqual(await brokersThere.preview(key), await brokers.preview(key))
  for (const names of [[], ['shop/a', '__proto__']])
    assert.deepEqual(await statesThere.read('type', names), await feedStates.read('type', names))
  pods.problem = new QueryError('backend-failed', 'Redis is lost', 'x')
  await assert.rejects(podsThere.counter(at), { ...pods.problem, message: 'Redis is lost' })
})

async function first<Item>(items: AsyncIterable<Item>): Promise<Item> {
  for await (const item of items) return item
  return assert.fail('there is no item')
}

test('calls beyond the limit of a method are rejected', async t => {
  const { address } = await startOperator(t)
  const client = createGrpcClient(address, { tls: tlsOf('operator') })
  const ending = new AbortController()
  const path = leaderPath('Acknowledge')
  const calls = Array.from({ length: 65 }, () =>
    Array.fromAsync(client.bidi(path, encodedCodec, { signal: ending.signal }).messages),
  )
  await assert.rejects(Promise.race(calls), /64 calls are open already/)
  ending.abort()
  await Promise.allSettled(calls)
  client.close()
})

test('a leader without LeaderService is reported once, and its processes connect again', async t => {
  const [leader, follower] = [await startOperator(t, withoutService), await startOperator(t)]
  follower.leader.setLeader(leader.address)
  const failures = () =>
    follower.lines.filter(line => line.includes('UNIMPLEMENTED') || line.includes('failed'))
  await waitFor('the failures of both reports', () => failures().length === 2)
  for (let attempt = 0; attempt < 3; attempt++) {
    for (const [path, hello] of [
      [processSessionPath, processHello],
      [brokerSessions.path, brokerHello],
    ] as const)
      assert.match(
        await openCall(t, 'pod', follower.address, path, hello).end,
        /^UNAVAILABLE: the operator with/,
      )
  }
  const sessionFailures = failures().filter(line => line.startsWith('pass session failed'))
  assert.deepEqual([failures().length, sessionFailures.length], [4, 2])
  assert.equal(follower.unreachable(), 0, 'the leader is there')
  await assert.rejects(
    follower.podSessions.pods(),
    (error: unknown) => error instanceof QueryError && error.code === 'deadline',
  )
  assert.equal((await follower.feedStates.read(rateLimitTypeUrl, [])).version, '')
  // The leader is replaced by an operator of the present version.
  const next = await startOperator(t)
  follower.leader.setLeader(next.address)
  const { end } = openCall(t, 'pod', follower.address, processSessionPath, processHello, processDomain)
  await waitFor('the session', async () => (await follower.podSessions.domains()).items.length === 1)
  leader.leader.stop()
  follower.leader.setLeader(undefined)
  assert.match(await end, /^UNAVAILABLE/)
})

test('a follower without LeaderService keeps its sessions, and reports nothing to the leader', async t => {
  const leader = await startOperator(t)
  // Operators of an earlier version call these methods, with the certificate of operators.
  const { end } = openCall(t, 'operator', leader.address, loadReportPath)
  assert.match(await end, /^FAILED_PRECONDITION: an operator reports loads by LeaderService/)
  for (const path of ['AcknowledgementService/Report', 'CounterService/Query'])
    assert.match(
      await openCall(t, 'operator', leader.address, `/tollway.operator.v1.${path}`).end,
      /^UNIMPLEMENTED/,
    )
  openCall(t, 'operator', leader.address, processSessionPath, processHello, processDomain)
  await waitFor('its session', async () => (await leader.podSessions.domains()).items.length === 1)
})

/** A connection to an operator that can be cut, as by `kill -9`, or be silent, as after `SIGSTOP`. */
async function startProxy(t: TestContext, address: string) {
  const port = Number(address.split(':')[1])
  const sockets = new Set<Socket>()
  const server = createServer(client => {
    const upstream = connect(port, '127.0.0.1')
    for (const socket of [client, upstream]) sockets.add(socket.on('error', () => {}))
    client.pipe(upstream).pipe(client)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const kill = () => {
    server.close()
    for (const socket of sockets) socket.destroy()
  }
  t.after(kill)
  const silence = () => {
    server.close()
    for (const socket of sockets) socket.unpipe().pause()
  }
  return { address: `127.0.0.1:${(server.address() as AddressInfo).port}`, kill, silence }
}

for (const fault of ['kill', 'silence'] as const)
  test(`a leader that ends by ${fault} ends the queries and sessions of its followers`, async t => {
    const [leader, follower] = [await startOperator(t), await startOperator(t)]
    const proxy = await startProxy(t, leader.address)
    follower.leader.setLeader(proxy.address)
    const session = openCall(t, 'pod', follower.address, processSessionPath, processHello, processDomain)
    await waitFor('the session', async () => (await follower.podSessions.domains()).items.length === 1)
    const signal = new AbortController().signal
    const series = follower.podSessions.series({ domain: 'shop' }, signal)[Symbol.asyncIterator]()
    await series.next()
    const beganMs = performance.now()
    proxy[fault]()
    const failed = assert.rejects(async () => {
      for (;;) await series.next()
    }, isDeadline)
    assert.match(await session.end, /^UNAVAILABLE: the operator with the Lease/)
    await failed
    await waitFor('the failure of the reports', () => follower.unreachable() > 0)
    await assert.rejects(follower.podSessions.pods(), isDeadline)
    assert.ok(performance.now() - beganMs < 20_000)
    // The process connects again, and reaches the next leader.
    follower.leader.setLeader(leader.address)
    openCall(t, 'pod', follower.address, processSessionPath, processHello, processDomain)
    await waitFor('the session', async () => (await follower.podSessions.domains()).items.length === 1)
  })

const isDeadline = (error: unknown) => error instanceof QueryError && error.code === 'deadline'
