import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { create, toBinary } from '@bufbuild/protobuf'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { SessionReportSchema } from '@tollway/proto/tollway/operator/v1/counters'
import { BrokerReportSchema } from '@tollway/proto/tollway/operator/v1/stream_reports'
import { brokerSessions } from '../../operator/broker-queries/broker-session.ts'
import type { ExpectedBroker } from '../../operator/broker-queries/brokers.ts'
import { streamRouteType } from '../../operator/kinds/animation-stream-route/stream-route.ts'
import { leaderPath } from '../../operator/leader/leader-service.ts'
import { encodeQuery } from '../../operator/leader/query-messages.ts'
import { QueryError } from '../../operator/pods/query-error.ts'
import { encodedCodec } from '../../operator/pods/session-table.ts'
import { processSessionPath } from '../../operator/ratelimit-queries/process-session.ts'
import { startOperator as startOperatorOf, tlsOf } from '../../operator/testing/start-operator.ts'
import { createSnapshot } from '../../operator/xds/snapshot.ts'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { startBroker } from '../support/broker-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { waitFor } from '../support/wait-for.ts'

/** An operator of a cluster with its feed, which accepts only clients with a certificate. */
async function startOperator(t: TestContext, expected: readonly ExpectedBroker[]) {
  const replicas: Readonly<Record<string, readonly ExpectedBroker[]>> = {
    broker: expected,
    ratelimit: [running('limiter')],
  }
  const infrastructure = { observe: (workload: string) => replicas[workload] ?? [] }
  const operator = await startOperatorOf(t, { infrastructure, typeUrls: [streamRouteType] })
  operator.feed.publish(createSnapshot(streamRouteType, []))
  return operator
}

/** A broker process of this uid, with a request of this stream. */
async function startReportingBroker(t: TestContext, address: string, uid: string) {
  const folder = temporaryFolder('broker-sessions')
  const { serverName, credentials } = tlsOf('pod')
  const { ca, identity } = credentials()
  assert.ok(identity)
  const file = (name: string, content: string) => {
    writeFileSync(join(folder, name), content)
    return join(folder, name)
  }
  const broker = await startBroker(t, {
    ROUTES: 'feed',
    CONFIG_GRPC_XDS_SERVER_URL: address,
    CONFIG_GRPC_XDS_NODE_ID: uid,
    CONFIG_GRPC_XDS_NODE_METADATA: `uid:${uid},pod:pod-${uid},namespace:default`,
    CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
    CONFIG_GRPC_XDS_CLIENT_TLS_CERT: file('tls.crt', identity.cert),
    CONFIG_GRPC_XDS_CLIENT_TLS_KEY: file('tls.key', identity.key),
    CONFIG_GRPC_XDS_SERVER_TLS_CACERT: file('ca.crt', ca),
    CONFIG_GRPC_XDS_SERVER_TLS_SAN: serverName,
    CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '50ms',
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '50ms',
    XDS_CLIENT_BACKOFF_MAX_INTERVAL: '200ms',
  })
  const push = openAnimationClient(t, broker.address).push()
  push.write(encodeText('header'))
  t.after(() => push.cancel())
  return broker
}

const running = (uid: string): ExpectedBroker => ({ name: `pod-${uid}`, uid, reason: '' })

type Operator = Awaited<ReturnType<typeof startOperator>>

/** The brokers in short form: `pod-a 1` with the number of their requests, or `pod-b PROBLEM`. */
async function brokersAt({ brokers }: Operator): Promise<string> {
  const looks = await brokers.list()
  return looks
    .map(look => `${look.address} ${'page' in look ? look.page.streams.length : look.problem}`)
    .join('; ')
}

const noSession = 'has no session with the operator'

test('every operator lists and previews the requests of all brokers, through faults of both', async t => {
  const expected = ['a', 'b', 'c'].map(running)
  const [one, two] = [await startOperator(t, expected), await startOperator(t, expected)]
  two.leader.setLeader(one.address)
  const [a, b] = await Promise.all([
    startReportingBroker(t, one.address, 'a'),
    startReportingBroker(t, two.address, 'b'),
  ])
  const both = `pod-a 1; pod-b 1; pod-c ${noSession}`
  for (const operator of [one, two]) {
    await waitFor('both brokers', async () => (await brokersAt(operator)) === both)
  }

  await t.test('a preview comes from the broker that has the request', async () => {
    for (const operator of [one, two]) {
      for (const look of await operator.brokers.list()) {
        const [request] = 'page' in look ? look.page.streams : []
        if (request === undefined) continue
        const result = await operator.brokers.preview(request.key ?? '')
        assert.ok('preview' in result, JSON.stringify(result))
        assert.partialDeepStrictEqual(result.preview, { key: request.key, ended: false })
      }
      assert.deepEqual(await operator.brokers.preview('none'), { unknown: true })
    }
  })

  await t.test('a broker that hangs is named, and the others are listed', async () => {
    b.program.process.kill('SIGSTOP')
    const late = `pod-a 1; pod-b does not answer within 3 s; pod-c ${noSession}`
    const isLate = async (operator: Operator) => (await brokersAt(operator)) === late
    await Promise.all([one, two].map(operator => waitFor('the other broker', () => isLate(operator))))
    const result = await two.brokers.preview('none')
    assert.deepEqual(result, { problem: 'pod-b: does not answer within 3 s' })
    b.program.process.kill('SIGCONT')
    for (const operator of [one, two]) {
      await waitFor('both brokers', async () => (await brokersAt(operator)) === both)
    }
  })

  await t.test('another leader answers for all brokers', async () => {
    const before = await Promise.all([one, two].map(({ brokers }) => brokers.list()))
    one.leader.setLeader(two.address)
    two.leader.setLeader(undefined)
    for (const operator of [one, two]) {
      // A list is given again for a second.
      const isNew = async () => !before.includes(await operator.brokers.list())
      await waitFor('a list of the new leader', () => isNew().catch(() => false))
      await waitFor('both brokers', async () => (await brokersAt(operator).catch(() => '')) === both)
    }
  })

  await t.test('a broker that is killed has no session', async () => {
    a.program.process.kill('SIGKILL')
    const disconnected = `pod-a ${noSession}; pod-b 1; pod-c ${noSession}`
    for (const operator of [one, two]) {
      await waitFor('the end of the session', async () => (await brokersAt(operator)) === disconnected)
    }
  })

  await t.test('without its leader, an operator reports the cause', async () => {
    await two.stop()
    const error = await waitFor('the error', () =>
      one.brokers.list().then(
        () => false,
        (cause: unknown) => cause,
      ),
    )
    assert.ok(error instanceof QueryError)
    assert.equal(error.code, 'deadline')
    assert.match(error.message, /ask the operator with the Lease/)
  })
})

/** A session of a pod with the certificate of the fleet. `end` resolves with the status at its end. */
function openSession(t: TestContext, address: string, path: string, ...reports: readonly Uint8Array[]) {
  const client = createGrpcClient(address, { tls: tlsOf('pod') })
  t.after(() => client.close())
  const ending = new AbortController()
  t.after(() => ending.abort())
  const call = client.bidi(path, encodedCodec, { signal: ending.signal })
  for (const report of reports) void call.write(report)
  const end = (async () => {
    try {
      for await (const _ of call.messages);
      return 'OK'
    } catch (error) {
      return (error as Error).message
    }
  })()
  return { call, end }
}

const brokerHello = (uid: string, pod = `pod-${uid}`) =>
  toBinary(BrokerReportSchema, create(BrokerReportSchema, { report: { case: 'hello', value: { uid, pod } } }))
const processHello = (uid: string) =>
  toBinary(
    SessionReportSchema,
    create(SessionReportSchema, { report: { case: 'hello', value: { uid, pod: uid } } }),
  )
const brokerAnswer = (id: bigint, json: string) =>
  toBinary(
    BrokerReportSchema,
    create(BrokerReportSchema, { report: { case: 'answer', value: { id, json } } }),
  )

test('a pod has the sessions of its own service only, under its own name', async t => {
  const expected = ['a', 'b'].map(running)
  const [one, two] = [await startOperator(t, expected), await startOperator(t, expected)]
  two.leader.setLeader(one.address)
  for (const { address } of [one, two]) {
    for (const uid of ['limiter', 'made-up']) {
      const { end } = openSession(t, address, brokerSessions.path, brokerHello(uid))
      assert.match(await end, /uid: no broker with this uid runs here/)
    }
    for (const uid of ['a', 'made-up']) {
      const { end } = openSession(t, address, processSessionPath, processHello(uid))
      assert.match(await end, /uid: no rate limit process with this uid runs here/)
    }
  }
  openSession(t, two.address, brokerSessions.path, brokerHello('a', 'pod-b'))
  const late = `pod-a does not answer within 3 s; pod-b ${noSession}`
  await waitFor('the broker under its own name', async () => (await brokersAt(one)) === late)
})

test('a broker that sends answers without requests loses its session, and the others are listed', async t => {
  const operator = await startOperator(t, ['a', 'b'].map(running))
  await startReportingBroker(t, operator.address, 'b')
  const answers = Array.from({ length: 100 }, (_, index) => brokerAnswer(BigInt(index), '{"streams":[]}'))
  const { end } = openSession(t, operator.address, brokerSessions.path, brokerHello('a'), ...answers)
  assert.match(await end, /answer: no request waits for one/)
  const others = `pod-a ${noSession}; pod-b 1`
  await waitFor('the other broker', async () => (await brokersAt(operator)) === others)
})

test('a pod may not ask for the requests of brokers', async t => {
  const operator = await startOperator(t, [])
  for (const query of [encodeQuery('brokers', {}), encodeQuery('preview', { key: 'key' })]) {
    const client = createGrpcClient(operator.address, { tls: tlsOf('pod') })
    t.after(() => client.close())
    const call = client.bidi(leaderPath('Query'), encodedCodec)
    void call.write(query)
    call.end()
    await assert.rejects(async () => {
      for await (const _ of call.messages);
    }, /only an operator may call Query/)
  }
})
