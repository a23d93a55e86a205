import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import {
  CounterAnswer_Outcome as Outcome,
  SessionReportSchema,
  SessionRequestSchema,
} from '@tollway/proto/tollway/operator/v1/counters'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/rate-limit-domain.ts'
import { createAuthority } from '../services/grpc/server/testing/contract/certificates.ts'
import { waitFor } from '../test/support/wait-for.ts'
import type { ResourceList } from './api/shapes.ts'
import { serveApi } from './api/testing/serve-api.ts'
import { openSessions } from './app.ts'
import { sessionPath } from './counters/session-codec.ts'
import { Feed } from './xds/feed.ts'
import { createPeerReporter } from './xds/peers/peer-reporter.ts'
import { createPeers } from './xds/peers/peers.ts'
import { createLeaderLink } from './xds/sessions/leader-link.ts'
import { encodedCodec } from './xds/sessions/pass-on.ts'
import { askingCodec, queryPath } from './xds/sessions/query-codec.ts'
import { QueryError } from './xds/sessions/query-error.ts'
import { createResource, createSnapshot } from './xds/snapshot.ts'
import { connectPod } from './xds/testing/connect-pod.ts'

const operatorName = 'operator.system.svc'
const fleet = createAuthority('fleet')
const operatorLeaf = fleet.issue(operatorName)
const podLeaf = fleet.issue('pods.system.svc')

const replica = (uid: string) => ({ uid, name: uid, reason: '' })
const infrastructure = {
  observe: (workload: string) => (workload === 'ratelimit' ? ['a', 'b'].map(replica) : []),
}

const tlsAs = ({ cert, key }: { readonly cert: string; readonly key: string }) => ({
  serverName: operatorName,
  credentials: () => ({ ca: fleet.ca, identity: { cert, key } }),
  onChange: () => () => {},
})

let streams = 0

async function startOperator(t: TestContext) {
  const shared = { ids: () => `${++streams}`, clock: systemClock, log: silentLog }
  const peers = createPeers({ ...shared, operatorName })
  const feed = new Feed({ ...shared, typeUrls: [rateLimitTypeUrl], remotePeers: peers })
  const reporter = createPeerReporter({
    ...{ ...shared, feed, tls: tlsAs(operatorLeaf), reporter: shared.ids(), random: Math.random },
    timing: { paceMs: 5, backoff: { initialMs: 10, maxMs: 50 } },
  })
  const leader = createLeaderLink({ tls: tlsAs(operatorLeaf), log: silentLog })
  const { sessions, podSessions, feedStates, closeSessions } = openSessions(
    { feed, leader, operatorName, infrastructure },
    silentLog,
  )
  const onDefect = (_: string, error: unknown) => assert.fail(`${error}`)
  const server = createGrpcServer({
    methods: [feed, peers, sessions].flatMap(({ methods }) => methods),
    onDefect,
  })
  const tls = { credentials: () => operatorLeaf, requireClientCert: true, onChange: () => () => {} }
  t.after(async () => {
    closeSessions()
    sessions.close()
    leader.stop()
    peers.close()
    feed.close()
    await reporter.stop()
    await server.drain(0)
  })
  const bound = await server.listen({ host: '127.0.0.1', port: 0, tls })
  assert.ok('port' in bound)
  return { address: `127.0.0.1:${bound.port}`, podSessions, feed, feedStates, reporter, leader }
}

type Report = NonNullable<MessageInitShape<typeof SessionReportSchema>['report']>

/** A process with one domain, which answers reads of a counter, and connects again when its stream ends. */
function connectProcess(t: TestContext, address: string, uid: string): void {
  const client = createGrpcClient(address, { tls: tlsAs(podLeaf) })
  const stopping = new AbortController()
  const { signal } = stopping
  t.after(() => {
    stopping.abort()
    client.close()
  })
  async function run(): Promise<void> {
    const call = client.bidi(sessionPath, encodedCodec, { signal })
    const send = (report: Report) =>
      void call.write(toBinary(SessionReportSchema, create(SessionReportSchema, { report })))
    send({ case: 'hello', value: { uid, pod: uid, backend: 'redis', features: ['replay'] } })
    send({ case: 'totals', value: { domains: [{ domain: 'shop', rules: 1, whole: true }] } })
    for await (const bytes of call.messages) {
      const { request } = fromBinary(SessionRequestSchema, bytes)
      if (request.case === 'counter') {
        const counters = [{ rule: 'shop.user', key: 'k', value: 7n, limit: 10n }]
        send({ case: 'counter', value: { id: request.value.id, outcome: Outcome.OK, counters } })
      } else if (request.case === 'subscribe') {
        send({ case: 'series', value: { id: request.value.id, allowed: 3n } })
      }
    }
  }
  const repeat = async () => {
    while (!signal.aborted) {
      await run().catch(() => {})
      await new Promise(resolve => setTimeout(resolve, 20))
    }
  }
  void repeat()
}

const at = { domain: 'shop', entries: [{ key: 'user', value: 'a' }] }

test('every operator answers for all processes, also after a change of the leader', async t => {
  const [one, two] = [await startOperator(t), await startOperator(t)]
  two.leader.setLeader(one.address)
  connectProcess(t, one.address, 'a')
  connectProcess(t, two.address, 'b')
  const podsAt = async ({ podSessions }: typeof one) =>
    (await podSessions.pods()).items.flatMap(({ pod, workers }) => (workers > 0 ? [pod] : [])).join()
  for (const operator of [one, two]) {
    await waitFor('both pods', async () => (await podsAt(operator)) === 'a,b')
    assert.equal((await operator.podSessions.counter(at)).counters[0]?.remaining, 3)
    assert.equal((await operator.podSessions.rules('shop')).items.length, 0)
  }
  await assert.rejects(two.podSessions.raise(at, -1), (error: unknown) => {
    assert.ok(error instanceof QueryError)
    return error.code === 'invalid' && error.field === 'by'
  })
  const ending = new AbortController()
  for await (const { allowed, pods } of two.podSessions.series({ domain: 'shop' }, ending.signal)) {
    if (allowed === 6 && pods === 2) break
  }
  one.leader.setLeader(two.address)
  two.leader.setLeader(undefined)
  for (const operator of [one, two]) {
    await waitFor(
      'both pods at the new leader',
      async () => (await podsAt(operator).catch(() => '')) === 'a,b',
    )
  }
})

test('each operator lists the pods of all operators by version, and all of their rejections', async t => {
  const operators = [await startOperator(t), await startOperator(t)] as const
  const [one, two] = operators
  two.leader.setLeader(one.address)
  two.reporter.setLeader(one.address)
  const name = 'shop/checkout'
  const snapshotOf = (text: string) =>
    createSnapshot(rateLimitTypeUrl, [createResource(name, Buffer.from(text))])
  const [first, second] = [snapshotOf('checkout=1'), snapshotOf('checkout=2')]
  for (const { feed } of operators) feed.publish(first)
  const pod = { typeUrl: rateLimitTypeUrl, tls: tlsAs(podLeaf) }
  connectPod(t, { ...pod, address: one.address, uid: 'a' })
  connectPod(t, { ...pod, address: two.address, uid: 'b', rejects: 'checkout=2' })
  connectPod(t, { ...pod, address: two.address, uid: 'c' })
  for (const { feedStates } of operators) {
    const { ask } = await serveApi(t, { feedStates })
    const list = async () => (await ask('/resources?namespace=shop')).body as unknown as ResourceList
    const podsOf = async ({ version }: { readonly version: string }) =>
      (await list()).feeds[0]?.versions.find(one => one.version === version)?.pods ?? 0
    if (feedStates === one.feedStates) {
      await waitFor('all pods to have the first version', async () => (await podsOf(first)) === 3)
      for (const { feed } of operators) feed.publish(second)
    }
    await waitFor('two pods to have the second version', async () => (await podsOf(second)) === 2)
    assert.equal(await podsOf(first), 1)
    assert.deepEqual((await list()).items[0]?.rejections, [{ pod: 'b-pod', message: 'checkout: is bad' }])
  }
})

test('two operators that consider each other the leader relay no session twice', async t => {
  const [one, two] = [await startOperator(t), await startOperator(t)]
  one.leader.setLeader(two.address)
  two.leader.setLeader(one.address)
  connectProcess(t, one.address, 'a')
  two.leader.setLeader(undefined)
  await waitFor('the pod', async () => (await two.podSessions.pods()).items.length === 1)
})

test('a process may not use the calls of operators, and a missing leader is an error', async t => {
  const one = await startOperator(t)
  const client = createGrpcClient(one.address, { tls: tlsAs(podLeaf) })
  t.after(() => client.close())
  const call = client.bidi(queryPath, askingCodec)
  void call.write({ method: 'pods', arguments: [] })
  call.end()
  await assert.rejects(async () => {
    for await (const _ of call.messages);
  }, /only an operator may ask/)
  one.leader.setLeader('127.0.0.1:1')
  await assert.rejects(one.podSessions.pods(), (error: unknown) => {
    return error instanceof QueryError && error.code === 'deadline'
  })
})
