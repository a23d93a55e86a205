import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apiVersion } from '../../crds/resource-kind.ts'
import type { StreamList, StreamPreview } from '../../operator/api/stream-shapes.ts'
import { root } from '../support/tollway.ts'
import { makeAccount } from './accounts.ts'
import { apply, eventually, isReady, kubectl, logged, pods, restart } from './cluster.ts'
import { createFigures } from './figures.ts'
import type { Period } from './load.ts'
import { brokers, followReadyBrokers, formatAddress, readyBrokers } from './ready-brokers.ts'
import { startRelay } from './relay.ts'
import { streamThroughRelay, uncoveredMs } from './relay-client.ts'
import { ensureInstalled, system } from './release.ts'
import {
  frameMs,
  pauseMs,
  pushRequest,
  receivesWhole,
  startConsumer,
  startProducer,
  wholeRequest,
} from './streams-load.ts'
import { withTestImages } from './test-images.ts'

const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

/** The namespace of examples/kubernetes/streams. */
const example = 'kiosk'

describe('animation streams in a cluster', { skip, timeout: 600_000 }, () => {
  const figures = createFigures('streams')
  const found = followReadyBrokers(system)

  before(async () => {
    await ensureInstalled()
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'studio' } })
    await apply(avatars)
    await kubectl('-n', 'studio', 'wait', '--for=condition=Ready', 'asr/avatars', '--timeout=120s')
    found.start()
  })
  after(async () => {
    await found.stop()
    await kubectl('delete', 'namespace', 'studio', example, '--ignore-not-found', '--wait=false')
    await kubectl('delete', 'clusterrolebinding', viewers, '--ignore-not-found')
    figures.write()
  })

  it('has two brokers, which both enforce a route', async () => {
    assert.equal((await readyBrokers(system)).length, 2)
    assert.match(await kubectl('-n', 'studio', 'get', 'asr'), /avatars .*\bTrue +2\/2 /)
  })

  it('delivers what is pushed to one broker to consumers of the other, and operators list it', async t => {
    const [pushing, consuming] = await readyBrokers(system)
    assert.ok(pushing && consuming)
    const consumer = startConsumer(async () => formatAddress(consuming))
    t.after(consumer.stop)
    // A broker may still have the request of an earlier run.
    const request = `across-${randomUUID()}`
    // The load is reported every few seconds.
    const frames = 900
    const pushed = pushRequest(async () => formatAddress(pushing), request, frames)
    await eventually('the stream in the status', async () =>
      /avatars +s +1 +1 +True +2\/2 /.test(await kubectl('-n', 'studio', 'get', 'asr')),
    )
    await everyOperatorLists(request, consuming.metadata.name)
    assert.equal(await pushed, 'SUCCESS')
    await receivesWhole(consumer, request, frames)
  })

  it('delivers the streams of the unchanged examples/kubernetes/streams', async () => {
    await apply(withTestImages(await kubectl('kustomize', join(root, 'examples/kubernetes/streams'))))
    await kubectl('-n', example, 'wait', '--for=condition=Ready', 'asr/kiosk', '--timeout=90s')
    for (const name of ['producer', 'consumer'])
      await kubectl('-n', example, 'rollout', 'status', `deploy/${name}`, '--timeout=90s')
    const consumers = await pods(example, 'app=consumer')
    assert.equal(consumers.length, 2)
    const utterance = /^received utterance-\w+: 60 frames, 2\.0 s of sound, SUCCESS "all is said"$/m
    for (const { metadata } of consumers) await logged(example, [metadata.name], utterance)
  })

  it('accepts a rotated token of a route, and rejects the previous one', async () => {
    const stringData = { push: randomUUID() }
    await kubectl('-n', example, 'patch', 'secret', 'kiosk-tokens', '-p', JSON.stringify({ stringData }))
    const producer = ['-l', 'app=producer', '--tail=2']
    await logged(example, producer, /^gRPC status 7 the route kiosk\/kiosk does not accept this token$/m)
    // The environment of the producer has the token, so that only a new pod uses the new one.
    await kubectl('-n', example, 'rollout', 'restart', 'deploy/producer')
    await kubectl('-n', example, 'rollout', 'status', 'deploy/producer', '--timeout=90s')
    await logged(example, producer, /^pushed utterance-\w+: SUCCESS "62 messages"$/m)
  })

  it('restarts its brokers without a lost message', async t => {
    const [one = '', other = ''] = (await readyBrokers(system)).map(formatAddress)
    const control = streamThroughRelay(await startRelay('studio'), frameMs, pauseMs)
    const consumers = [one, other].map(address => startConsumer(found.preferring(address)))
    const producer = startProducer(found.next)
    t.after(() => Promise.all([producer.stop(), control.stop(), ...consumers.map(({ stop }) => stop())]))
    await eventually('a request', async () => producer.answers.size > 0)
    await restart(system, 'tollway-broker', brokers)
    const done = producer.answers.size
    await eventually('a request after that', async () => producer.answers.size > done + 1)
    await producer.stop()
    assert.deepEqual(new Set(producer.answers.values()), new Set(['SUCCESS']))
    for (const consumer of consumers) {
      for (const request of producer.answers.keys()) await receivesWhole(consumer, request)
      assert.ok(consumer.moves > 0, 'its broker was replaced')
    }
    const pauses = consumers.flatMap(({ pauses }) => pauses)
    const [ofStream, ofControl] = [pauses, control.late].map(longestMs)
    const beyond = Math.max(0, ...pauses.map(pause => uncoveredMs(pause, control.late)))
    const shown = `0 of ${producer.answers.size * wholeRequest('').length * 2}`
    figures.note('messages lost in a rolling restart of the brokers', '0', shown)
    const figure = `${ofStream} ms, of the control ${ofControl} ms, beyond the control ${Math.round(beyond)} ms`
    figures.note('longest pause of a stream in it', '< 300 ms beyond the control', figure)
    assert.ok(beyond < 300, figure)
  })
})

const longestMs = (periods: readonly Period[]) =>
  Math.round(Math.max(0, ...periods.map(({ beginMs, endMs }) => endMs - beginMs)))

/** Checks that each operator lists the running request with its consumer at this broker, and previews it. */
async function everyOperatorLists(requestId: string, broker: string): Promise<void> {
  const { token } = await makeAccount('studio', 'viewer', {})
  const binding = ['clusterrolebinding', viewers, '--clusterrole=view']
  await kubectl('create', ...binding, '--serviceaccount=studio:viewer')
  await eventually(`${requestId} in the lists of two operators`, async () => {
    const operators = (await pods(system, 'app.kubernetes.io/name=tollway-operator')).filter(isReady)
    const answers = operators.map(({ status }) => findRequest(`${status.podIP}`, token, requestId))
    const found = (await Promise.all(answers)).filter(answer => answer !== undefined)
    for (const { request, preview } of found) {
      assert.deepEqual([request.state, request.route], ['running', 'studio/avatars'])
      assert.deepEqual(
        request.consumers.map(consumer => consumer.broker),
        [broker],
      )
      assert.equal(preview.ended, false)
      assert.ok((preview.preview?.messages ?? 0) > 0, JSON.stringify(preview))
    }
    return found.length === 2
  })
}

/** Resolves with a request and its preview as an operator reports them; undefined if it does not list it. */
async function findRequest(operatorIp: string, token: string, requestId: string) {
  const { items } = await askOperator<StreamList>(operatorIp, token, 'streams')
  const request = items.find(item => item.requestId === requestId)
  if (request === undefined) return undefined
  const path = `streams/preview?key=${encodeURIComponent(request.key)}`
  return { request, preview: await askOperator<StreamPreview>(operatorIp, token, path) }
}

async function askOperator<T>(operatorIp: string, token: string, path: string): Promise<T> {
  const headers = { authorization: `Bearer ${token}` }
  const response = await fetch(`http://${operatorIp}:8000/api/v1/${path}`, { headers })
  const text = await response.text()
  if (response.status !== 200) throw new Error(`${path}: ${response.status}: ${text}`)
  return JSON.parse(text) as T
}

/** The ClusterRoleBinding of the account that lists requests. */
const viewers = 'tollway-test-viewers'

const avatars = {
  apiVersion,
  kind: 'AnimationStreamRoute',
  metadata: { name: 'avatars', namespace: 'studio' },
  spec: { match: { streamIdPrefix: 's' }, lateJoiners: { from: 'start' } },
}
