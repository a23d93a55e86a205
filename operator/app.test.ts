import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { type TestContext, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { create, fromBinary, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import {
  CounterCall_Action as Action,
  CounterAnswer_Outcome as Outcome,
  SessionReportSchema,
  type SessionRequest,
  SessionRequestSchema,
  Subscribe_What as What,
} from '@tollway/proto/tollway/operator/v1/counters'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { waitFor } from '../test/support/wait-for.ts'
import type { ResourceList } from './api/shapes.ts'
import { leaderPath } from './leader/leader-service.ts'
import { decodeAnswer, encodeQuery } from './leader/query-messages.ts'
import { QueryError } from './pods/query-error.ts'
import { encodedCodec } from './pods/session-table.ts'
import { maxWhatIfBytes } from './ratelimit-queries/pod-sessions.ts'
import { processSessionPath } from './ratelimit-queries/process-session.ts'
import { connectPod } from './testing/connect-pod.ts'
import { serveApi } from './testing/serve-api.ts'
import { startOperator, tlsOf } from './testing/start-operator.ts'
import { createResource, createSnapshot } from './xds/snapshot.ts'

const replica = (uid: string) => ({ uid, name: uid, reason: '' })
const infrastructure = {
  observe: (workload: string) => (workload === 'ratelimit' ? ['a', 'b'].map(replica) : []),
}

type Operator = Awaited<ReturnType<typeof startOperator>>

type Report = NonNullable<MessageInitShape<typeof SessionReportSchema>['report']>

/** The answer of a played process to a request; undefined for requests without one. */
function answerOf({ case: name, value }: SessionRequest['request']): Report | undefined {
  if (name === 'counter') {
    const isReset = value.action === Action.RESET
    const counters = [{ rule: 'shop.user', key: 'k', value: isReset ? 0n : 7n, limit: 10n }]
    return { case: 'counter', value: { id: value.id, outcome: Outcome.OK, counters } }
  }
  if (name === 'forget') return { case: 'forgotten', value: { id: value.id } }
  if (name === 'subscribe') {
    const { id } = value
    const entries = [{ key: 'user', value: 'alice' }]
    if (value.what === What.TOP) return { case: 'top', value: { id, keys: [{ entries, count: 2n }] } }
    if (value.what === What.TAP)
      return { case: 'tap', value: { id, decisions: [{ entries, rule: 'shop.user' }] } }
    return { case: 'series', value: { id, allowed: 3n } }
  }
  if (name === 'openRecording') return { case: 'recording', value: { id: value.id, maxRecords: 1n } }
  if (name === 'readPart') return { case: 'part', value: { id: value.id, last: true } }
  if (name === 'addPart') return { case: 'added', value: { id: value.id } }
  if (name === 'whatIf') {
    const recordedCalls = BigInt(gunzipSync(value.resource).length)
    return { case: 'replay', value: { id: value.id, done: true, recordedCalls, share: 1 } }
  }
  return undefined
}

/** A process with one domain, which connects again when its stream ends. */
function connectProcess(t: TestContext, address: string, uid: string): void {
  const client = createGrpcClient(address, { tls: tlsOf('pod'), maxReceiveBytes: 64 * 1024 * 1024 })
  const stopping = new AbortController()
  const { signal } = stopping
  t.after(() => {
    stopping.abort()
    client.close()
  })
  async function run(): Promise<void> {
    const call = client.bidi(processSessionPath, encodedCodec, { signal })
    const send = (report: Report) =>
      void call.write(toBinary(SessionReportSchema, create(SessionReportSchema, { report })))
    send({ case: 'hello', value: { uid, pod: uid, backend: 'redis', features: ['merge', 'tap'] } })
    send({ case: 'totals', value: { domains: [{ domain: 'shop', rules: 1, whole: true }] } })
    for await (const bytes of call.messages) {
      const answer = answerOf(fromBinary(SessionRequestSchema, bytes).request)
      if (answer !== undefined) send(answer)
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
  const [one, two] = [await startOperator(t, { infrastructure }), await startOperator(t, { infrastructure })]
  two.leader.setLeader(one.address)
  connectProcess(t, one.address, 'a')
  connectProcess(t, two.address, 'b')
  const podsAt = async ({ podSessions }: Operator) =>
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

test('an operator without the Lease resets, lists top keys, taps, and replays 10 MiB', async t => {
  const [one, two] = [await startOperator(t, { infrastructure }), await startOperator(t, { infrastructure })]
  two.leader.setLeader(one.address)
  connectProcess(t, one.address, 'a')
  connectProcess(t, two.address, 'b')
  const { podSessions } = two
  await waitFor('both pods', async () => (await podSessions.domains()).items[0]?.pods === 2)
  const { counters, confirmed, missing } = await podSessions.reset(at)
  assert.deepEqual([counters[0]?.value, confirmed, missing], [0, ['a', 'b'], []])
  const { keys } = await podSessions.top({ domain: 'shop', rule: 'shop.user', by: 'hits' })
  assert.deepEqual([keys[0]?.entries[0]?.value, keys[0]?.count], ['alice', 4])
  const ending = new AbortController()
  const tapped = new Set<string>()
  for await (const { decisions } of podSessions.tap({ domain: 'shop' }, ending.signal)) {
    for (const { pod } of decisions) tapped.add(pod)
    if (tapped.size === 2) break
  }
  // Random bytes stay as large as they are: they cannot be compressed.
  const resource = randomBytes(maxWhatIfBytes)
  const steps = await Array.fromAsync(podSessions.whatIf({ domain: 'shop', resource }, ending.signal))
  const result = steps.find(step => step.kind === 'result')?.result
  assert.deepEqual([result?.coverage.recordedCalls, result?.coverage.pods], [maxWhatIfBytes, 2])
})

test('after a change of the leader, a reset names pods that have no session with the new one', async t => {
  const [one, two] = [await startOperator(t, { infrastructure }), await startOperator(t, { infrastructure })]
  two.leader.setLeader(one.address)
  connectProcess(t, two.address, 'a')
  connectProcess(t, one.address, 'b')
  await waitFor('both pods', async () => (await two.podSessions.domains()).items[0]?.pods === 2)
  // Two has the Lease, but One does not know it yet, and so does not pass on the session of b.
  two.leader.setLeader(undefined)
  await waitFor('the session of a', async () => (await two.podSessions.domains()).items.length === 1)
  const alone = await two.podSessions.reset(at)
  assert.deepEqual([alone.confirmed, alone.missing], [['a'], ['b']])
  one.leader.setLeader(two.address)
  await waitFor('both pods to confirm', async () => (await one.podSessions.reset(at)).missing.length === 0)
})

test('each operator lists the pods of all operators by version, and all of their rejections', async t => {
  const operators = [
    await startOperator(t, { infrastructure }),
    await startOperator(t, { infrastructure }),
  ] as const
  const [one, two] = operators
  two.leader.setLeader(one.address)
  const name = 'shop/checkout'
  const snapshotOf = (text: string) =>
    createSnapshot(rateLimitTypeUrl, [createResource(name, Buffer.from(text))])
  const [first, second] = [snapshotOf('checkout=1'), snapshotOf('checkout=2')]
  for (const { feed } of operators) feed.publish(first)
  const pod = { typeUrl: rateLimitTypeUrl, tls: tlsOf('pod') }
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
  const [one, two] = [await startOperator(t, { infrastructure }), await startOperator(t, { infrastructure })]
  one.leader.setLeader(two.address)
  two.leader.setLeader(one.address)
  connectProcess(t, one.address, 'a')
  two.leader.setLeader(undefined)
  await waitFor('the pod', async () => (await two.podSessions.pods()).items.length === 1)
})

test('a process may not use the calls of operators, and a missing leader is an error', async t => {
  const one = await startOperator(t, { infrastructure })
  const client = createGrpcClient(one.address, { tls: tlsOf('pod') })
  t.after(() => client.close())
  const call = client.bidi(leaderPath('Query'), { encode: Buffer.from, decode: decodeAnswer })
  void call.write(encodeQuery('pods', {}))
  call.end()
  await assert.rejects(async () => {
    for await (const _ of call.messages);
  }, /only an operator may call Query: .* DNS:pods.system.svc/)
  one.leader.setLeader('127.0.0.1:1')
  await assert.rejects(one.podSessions.pods(), (error: unknown) => {
    return error instanceof QueryError && error.code === 'deadline'
  })
})
