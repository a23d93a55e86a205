import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { type TestContext, test } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { createGrpcServer } from '@tollway/grpc/server/create-server.ts'
import {
  encodeStreamRoute,
  streamRouteType,
} from '../../operator/kinds/animation-stream-route/stream-route.ts'
import type { OpenedStreamRoute } from '../../operator/model.ts'
import { Feed } from '../../operator/xds/feed.ts'
import { createSnapshot } from '../../operator/xds/snapshot.ts'
import { defaultRoute } from '../../services/broker/routes/route.ts'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import {
  answerWith,
  createSecret,
  hang,
  type ReceivedPost,
  startReceiver,
} from '../../services/broker/webhooks/testing/receiver.ts'
import { encodeHeader } from '../../services/broker/wire/testing/encode-messages.ts'
import { openProxy } from '../../services/grpc/server/testing/contract/support.ts'
import { type BrokerProcess, startBroker } from '../support/broker-process.ts'
import { freePorts } from '../support/free-ports.ts'
import { startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'
import { startRedis } from '../support/redis-server.ts'
import { requireProgram } from '../support/require-server.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { startTollway } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

const secrets = [1, 2].map(createSecret)
const permitted = { WEBHOOK_ALLOW_HTTP: 'true', WEBHOOK_ALLOWED_CIDRS: '127.0.0.1/32' }

/** A route for streams with a prefix. */
function createRoute(name: string, webhook: OpenedStreamRoute['webhook']): OpenedStreamRoute {
  const { rules, lateJoiners, slowConsumers, concurrentRequests, limits, match } = defaultRoute
  const policies = { rules, lateJoiners, slowConsumers, concurrentRequests, limits }
  return {
    route: { name: `shop/${name}`, match: { ...match, streamIdPrefix: name }, ...policies },
    createdMs: 1,
    tokens: { push: [], pull: [] },
    ...(webhook && { webhook }),
  }
}

/** Starts a feed to which the test publishes routes. */
async function startRouteFeed(t: TestContext) {
  let nonce = 0
  const ids = () => `${++nonce}`
  const feed = new Feed({ typeUrls: [streamRouteType], ids, clock: systemClock, log: silentLog })
  const server = createGrpcServer({ methods: feed.methods, onDefect: (_, error) => assert.fail(`${error}`) })
  const bound = await server.listen({ host: '127.0.0.1', port: 0 })
  assert.ok('port' in bound)
  t.after(() => {
    feed.close()
    return server.drain(0)
  })
  return {
    env: { ROUTES: 'feed', CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${bound.port}` },
    publish(routes: readonly OpenedStreamRoute[]) {
      feed.publish(createSnapshot(streamRouteType, routes.map(encodeStreamRoute)))
    },
  }
}

const createHeader = (streamId: string, requestId: string) =>
  encodeHeader({ animationIds: { streamId, requestId, targetObjectId: '' }, sourceServiceId: 'a2f' })

/** A push that has begun. */
async function begin(t: TestContext, { address }: BrokerProcess, streamId: string, requestId: string) {
  const push = openAnimationClient(t, address).push()
  push.write(createHeader(streamId, requestId))
  await push.headers
  return push
}

/** `begun r1`, `ended r1 completed`. */
const describePost = ({ event: { type, data } }: ReceivedPost) => {
  const { how } = (data['end'] ?? {}) as { how?: string }
  return [type.replace('stream.', ''), data['requestId'], how].filter(Boolean).join(' ')
}

const metric = async ({ debug }: BrokerProcess, name: string) => {
  const numbers = await (await fetch(`${debug}/stats?format=json`)).json()
  return (numbers as Readonly<Record<string, number>>)[`broker.${name}`]
}

test('brokers over Redis post each begin and each end once', async t => {
  if (requireProgram(t, 'redis-server') === false) return
  const [redis, receiver, dead] = await Promise.all([
    startRedis(),
    startReceiver(t, secrets),
    startReceiver(t, secrets),
  ])
  t.after(() => redis.stop())
  const feed = await startRouteFeed(t)
  const webhook = { url: receiver.url, secrets: secrets.slice(0, 1) }
  const deadWebhook = { url: dead.url, secrets: secrets.slice(0, 1) }
  const others = [createRoute('dead', deadWebhook), createRoute('quiet', undefined)]
  feed.publish([createRoute('kiosk', webhook), ...others])
  const env = { ...feed.env, ...permitted, STREAM_LOG: 'redis', REDIS_URL: redis.url, LOG_LEVEL: 'debug' }
  const [adminPort] = await freePorts(1)
  const adminToken = 'a-token-of-the-admin-api'
  const adminTokenFile = join(temporaryFolder('notifications'), 'tokens')
  writeFileSync(adminTokenFile, adminToken)
  const admin = { ADMIN_HOST: '127.0.0.1', ADMIN_PORT: `${adminPort}`, ADMIN_TOKEN_FILE: adminTokenFile }
  const [one, two, three] = await Promise.all(
    [admin, {}, {}].map(more => startBroker(t, { ...env, ...more })),
  )
  assert.ok(one !== undefined && two !== undefined && three !== undefined)
  const brokers = [one, two]
  const texts = (requestId: string) =>
    receiver.posts.filter(({ event }) => event.data['requestId'] === requestId).map(describePost)
  const posted = async (requestId: string, expected: readonly string[]) => {
    await waitFor(
      () => `${expected}, got ${texts(requestId)}`,
      () => texts(requestId).length >= expected.length,
    )
    assert.deepEqual(texts(requestId), expected)
  }

  await t.test('of a request that its producer completes, with its messages and bytes', async () => {
    const push = await begin(t, one, 'kiosk-1', 'r1')
    for (const text of ['1', '2', 'SUCCESS']) push.write(encodeText(text, 'r1'))
    push.end()
    assert.match(await push.answer, /^SUCCESS 4 messages/)
    await posted('r1', ['begun r1', 'ended r1 completed'])
    const [begun, ended] = receiver.posts
    assert.equal(ended?.event.data['messages'], 4)
    assert.ok(Number(ended?.event.data['bytes']) > 0)
    assert.equal(ended?.event.data['run'], begun?.event.data['run'])
    assert.ok(receiver.posts.every(({ signedBy }) => signedBy === '0'))
  })

  await t.test('of a request that is interrupted at another broker', async () => {
    const push = await begin(t, one, 'kiosk-1', 'r2')
    await fetch(`${two.debug}/streams/kiosk-1/requests/r2`, { method: 'DELETE' })
    assert.match(await push.answer, /^INFO interrupted/)
    await posted('r2', ['begun r2', 'ended r2 interrupted'])
  })

  await t.test('of a request whose producer cancels it', async () => {
    const push = await begin(t, two, 'kiosk-1', 'r3')
    push.cancel()
    await posted('r3', ['begun r3', 'ended r3 lost'])
  })

  await t.test('of a request that its lost producer begins again at another broker', async t => {
    const proxy = await openProxy(t, Number(one.address.split(':')[1]))
    await begin(t, { ...one, address: `127.0.0.1:${proxy.port}` }, 'kiosk-1', 'again')
    await posted('again', ['begun again'])
    proxy.cut()
    const push = await begin(t, two, 'kiosk-1', 'again')
    for (const text of ['1', 'SUCCESS']) push.write(encodeText(text, 'again'))
    push.end()
    assert.match(await push.answer, /^SUCCESS/)
    await waitFor('all', () => texts('again').length === 4)
    const events = receiver.posts.map(({ event }) => event)
    const runs = Map.groupBy(
      events.filter(({ data }) => data['requestId'] === 'again'),
      ({ data }) => data['run'],
    )
    const [lost = [], next = []] = runs.values()
    const shown = [lost, next].map(run => run.map(({ type, data }) => [type, data['end']]))
    const status = { code: 'ERROR', message: 'the producer is gone: it came back without a resume token' }
    assert.deepEqual(shown, [
      [
        ['stream.begun', undefined],
        ['stream.ended', { how: 'lost', ...status }],
      ],
      [
        ['stream.begun', undefined],
        ['stream.ended', { how: 'completed' }],
      ],
    ])
    assert.ok(`${lost[1]?.created}` <= `${next[0]?.created}`, 'the end is older than the next begin')
  })

  await t.test('signed with the secrets of the newest routes', async () => {
    feed.publish([createRoute('kiosk', { ...webhook, secrets: secrets.toReversed() }), ...others])
    let count = 0
    await waitFor('both signatures', async () => {
      count += 1
      const push = await begin(t, one, 'kiosk-1', `rotated-${count}`)
      push.cancel()
      await posted(`rotated-${count}`, [`begun rotated-${count}`, `ended rotated-${count} lost`])
      return receiver.posts.at(-1)?.signedBy === '0 1'
    })
  })

  await t.test('and a receiver that never answers delays no stream', async () => {
    dead.answer = hang
    const consumer = openAnimationClient(t, two.address).pull({ streamId: 'dead-1' })
    for (let count = 0; count < 30; count += 1) {
      const push = await begin(t, one, 'dead-1', `d${count}`)
      for (const text of ['1', 'SUCCESS']) push.write(encodeText(text, `d${count}`))
      push.end()
      assert.match(await push.answer, /^SUCCESS/)
    }
    await waitFor(
      'all requests',
      () => consumer.texts().filter(text => text.startsWith('SUCC')).length === 30,
    )
    const push = await begin(t, one, 'kiosk-1', 'r4')
    push.cancel()
    await posted('r4', ['begun r4', 'ended r4 lost'])
    assert.ok(Number(await metric(one, 'notifications.queued')) >= 50)
    consumer.cancel()
  })

  await t.test('a broker that ends posts the ends of its requests first', async () => {
    const stopping = await startBroker(t, { ...env, DRAIN_TIMEOUT: '50ms' })
    receiver.answer = answerWith(503)
    await begin(t, stopping, 'kiosk-1', 'r5')
    await waitFor('a failed attempt', () => texts('r5').length > 0)
    receiver.answer = response => void response.writeHead(200).end()
    await stopping.program.end('SIGTERM')
    assert.deepEqual([...new Set(texts('r5'))], ['begun r5', 'ended r5 lost'])
  })

  await t.test('a peer posts the end of a request whose broker is killed', async () => {
    await begin(t, three, 'kiosk-1', 'r6')
    await posted('r6', ['begun r6'])
    await three.program.end('SIGKILL')
    // The other brokers count it as lost when it has been silent for 5 s and has not answered.
    await waitFor('the end', () => texts('r6').length > 1, 60_000)
    // Both peers have seen the end now; only one has reported it.
    for (const { debug } of brokers) {
      await waitFor('the peer to know', async () => {
        const { streams } = (await (await fetch(`${debug}/streams`)).json()) as {
          streams: { requestId: string; ended: boolean }[]
        }
        return streams.some(({ requestId, ended }) => requestId === 'r6' && ended)
      })
    }
    await posted('r6', ['begun r6', 'ended r6 lost'])
  })

  await t.test('and no page, metric or log line contains a secret', async () => {
    const pages = ['/', '/streams', '/stats', '/metrics', '/healthcheck', '/backend']
    const shown = await Promise.all(
      brokers.flatMap(({ debug }) => pages.map(async page => (await fetch(`${debug}${page}`)).text())),
    )
    const headers = { authorization: `Bearer ${adminToken}` }
    const listed = await fetch(`http://127.0.0.1:${adminPort}/streams`, { headers })
    shown.push(await listed.text())
    assert.match(shown.at(-1) ?? '', /"requestId": ?"r6"/)
    assert.match(shown.join(), /notifications_delivered_total\{route="shop\/kiosk"\} [1-9]/)
    const everything = [...shown, ...brokers.map(({ program }) => program.output())].join('\n')
    for (const secret of secrets) assert.ok(!everything.includes(secret.slice('whsec_'.length)))
  })
})

const manifests = (url: string, secret: string) => ({
  'route.yaml': `apiVersion: tollway.dev/v1alpha1
kind: AnimationStreamRoute
metadata: {name: avatars, namespace: shop}
spec:
  match: {streamIdPrefix: s}
  notify: {webhook: {url: '${url}', secretRef: {name: signing}}}
`,
  'secret.yaml': `apiVersion: v1
kind: Secret
metadata: {name: signing, namespace: shop}
stringData: {secret: '${secret}'}
`,
})

test('on one machine a Secret of the folder signs, follows an edit, and is in no output', async t => {
  const receiver = await startReceiver(t, secrets)
  const [first = '', second = ''] = secrets
  const files = manifests(receiver.url, first)
  const brokerEnv = Object.entries(permitted).flatMap(([name, value]) => ['--broker-env', `${name}=${value}`])
  const tollway = await startTollway(t, files, ['--broker-replicas', '1', ...brokerEnv])
  await tollway.ready()
  const pushed = async (requestId: string) => {
    const push = openAnimationClient(t, `127.0.0.1:${tollway.brokerPort}`).push()
    for (const text of ['header', 'SUCCESS']) push.write(encodeText(text, requestId))
    push.end()
    return await push.answer
  }
  assert.match(await pushed('r1'), /^SUCCESS/)
  await waitFor('both', () => receiver.posts.length === 2)
  assert.deepEqual(
    receiver.posts.map(post => `${describePost(post)}: ${post.signedBy}`),
    ['begun r1: 0', 'ended r1 completed: 0'],
  )
  const readCondition = (type: string) =>
    tollway.status().resources[0]?.conditions.find(condition => condition.type === type)
  tollway.write('secret.yaml', 'apiVersion: v1\nkind: Secret\nmetadata: {name: signing, namespace: shop}\n')
  await waitFor('the missing entry', () => readCondition('Programmed')?.reason === 'SecretMissing')
  await waitFor('the brokers to follow', () => readCondition('Enforced')?.status === 'True')
  assert.match(await pushed('r2'), /^SUCCESS/)
  tollway.write('secret.yaml', manifests('', second)['secret.yaml'])
  await tollway.ready()
  assert.match(await pushed('r3'), /^SUCCESS/)
  await waitFor('two more', () => receiver.posts.length === 4)
  assert.deepEqual(
    receiver.posts.slice(2).map(post => `${describePost(post)}: ${post.signedBy}`),
    ['begun r3: 1', 'ended r3 completed: 1'],
  )
  const translate = startProgram(process.execPath, [programs.tollway, 'translate', '-f', tollway.folder])
  assert.equal(await translate.exited(), 0)
  assert.match(translate.output(), /secrets:\n\s+- \(hidden\)/)
  const outputs = [tollway.program, translate].map(program => program.output())
  const everything = [...outputs, JSON.stringify(tollway.status())].join('\n')
  for (const secret of secrets) assert.ok(!everything.includes(secret.slice('whsec_'.length)))
})
