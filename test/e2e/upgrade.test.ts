import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { apiVersion } from '../../crds/resource-kind.ts'
import { askRedis } from '../support/redis-command.ts'
import { root } from '../support/tollway.ts'
import { previousImage } from '../versions/previous-images.ts'
import { missingPreviousRelease, previousChart, previousRelease } from '../versions/previous-release.ts'
import { apply, eventually, helm, kubectl, type Pod, pods, read } from './cluster.ts'
import { startControl } from './control-service.ts'
import { callsTo, decides } from './decides.ts'
import { envoyUrl, startDecisions } from './decisions.ts'
import { documentedEnvoy } from './documented-envoy.ts'
import { createFigures } from './figures.ts'
import { followReadyBrokers, formatAddress, readyBrokers } from './ready-brokers.ts'
import { chart, commonOptions, prepare, system, uninstall, untilReady } from './release.ts'
import { receivesWhole, startConsumer, startProducer, wholeRequest } from './streams-load.ts'
import { startTill, type Till } from './till-pod.ts'

const namespaces = ['shop', 'studio', 'bakery']
const { version } = previousRelease
/** The limit of `grace`, a user who exhausts it before the first change. */
const spentLimit = 3

const skip =
  process.env['KUBECONFIG'] === undefined ? 'KUBECONFIG names no cluster' : missingPreviousRelease()

/** Each step takes nearly a minute, so they are not part of every run. */
const notMixed = process.env['E2E_MIXED_VERSIONS'] === '1' ? false : 'E2E_MIXED_VERSIONS is not 1'

describe(`an upgrade from ${version} in a cluster, and the rollback`, { skip, timeout: 600_000 }, () => {
  const figures = createFigures('upgrade')
  const brokers = followReadyBrokers(system)
  let envoyIp = ''
  let till: Till
  let requests = 0

  before(async () => {
    // An earlier file that failed has left its release.
    await helm('uninstall', 'tollway', '-n', system, '--ignore-not-found', '--wait')
    await prepare()
    for (const name of namespaces) await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name } })
    await helm('install', 'tollway', previousChart(), ...optionsOf('previous', 'previous'))
    await apply({ apiVersion: 'v1', kind: 'List', items: [checkout, avatars] })
    await apply(readFileSync(join(root, 'examples/payments/bakery.yaml'), 'utf8'))
    await startControl('shop')
    await apply(documentedEnvoy('shop'))
    await apply(readFileSync(join(import.meta.dirname, 'envoy.yaml'), 'utf8'))
    await allReady()
    await kubectl('-n', 'shop', 'wait', '--for=condition=Ready', 'pod/envoy', '--timeout=60s')
    envoyIp = (await read<Pod>('shop', 'pods/envoy'))?.status.podIP ?? ''
    till = await startTill('bakery', 'bakery-payments')
    brokers.start()
    const spend = callsTo(envoyUrl(envoyIp, 'service'), { 'x-user': 'grace' })
    await eventually('the limit to be used up', async () => (await spend(1))[0] === 429)
  })
  after(async () => {
    await brokers.stop()
    await kubectl('delete', 'namespace', 'databases', ...namespaces, '--wait=false')
    figures.write()
  })

  it('an upgrade replaces the definitions, operators and pods', async t => {
    const options = optionsOf('today', 'today')
    await underLoad(t, 'an upgrade', () => helm('upgrade', 'tollway', chart, ...options))
    await edited(7)
  })

  it('a rollback replaces them, too', async t => {
    const rollback = () => helm('rollback', 'tollway', '1', '-n', system, ...untilReady)
    await underLoad(t, 'a rollback', rollback)
    await edited(6)
    const [operator] = await pods(system, 'app.kubernetes.io/name=tollway-operator')
    assert.match(JSON.stringify(operator), new RegExp(previousImage('operator')))
  })

  it(`the current operator runs pods of ${version}`, { skip: notMixed }, async t => {
    const options = optionsOf('today', 'previous')
    await underLoad(t, `pods of ${version}`, () => helm('upgrade', 'tollway', chart, ...options))
    await edited(5)
  })

  it(`the operator of ${version} runs current pods`, { skip: notMixed }, async t => {
    const options = optionsOf('previous', 'today')
    await underLoad(t, 'pods of today', () => helm('upgrade', 'tollway', previousChart(), ...options))
    await edited(4)
  })

  it('is uninstalled completely', async () => {
    await uninstall()
  })

  /**
   * Changes the release while calls, streams and captures go on. No call fails and none is decided wrongly;
   * all counters, messages and captures are kept.
   */
  async function underLoad(t: TestContext, what: string, change: () => Promise<unknown>): Promise<void> {
    const countedBefore = await counted()
    const decisions = await startDecisions(t, envoyIp, { admitted: 'alice', rejected: 'grace' })
    const addresses = (await readyBrokers(system)).map(formatAddress)
    const consumers = addresses.map(address => startConsumer(brokers.preferring(address)))
    const producer = startProducer(brokers.next, `change-${++requests}-`)
    t.after(() => Promise.all([producer.stop(), ...consumers.map(({ stop }) => stop())]))
    const stopSelling = till.rush()
    await eventually('a request', async () => producer.answers.size > 0)
    const beginMs = performance.now()
    await change()
    const seconds = (performance.now() - beginMs) / 1000
    const [answered, admitted] = [producer.answers.size, decisions.admitted()]
    await eventually('a request after that', async () => producer.answers.size > answered + 1)
    await eventually('calls after that', async () => decisions.admitted() > admitted + 200)
    figures.note(`calls during ${what}, ${seconds.toFixed(0)} s`, '0 failed', await decisions.stop())
    await allReady()
    await producer.stop()
    assert.deepEqual(new Set(producer.answers.values()), new Set(['SUCCESS']))
    for (const consumer of consumers) {
      for (const request of producer.answers.keys()) await receivesWhole(consumer, request)
    }
    const messages = producer.answers.size * wholeRequest('').length * consumers.length
    figures.note(`messages lost during ${what}`, '0', `0 of ${messages}`)
    const { captures, wrong, sent, replayed, longestMs } = await stopSelling()
    assert.deepEqual(wrong, [])
    const shown = `0 of ${captures}, ${sent} requests, ${replayed} given again, longest ${longestMs} ms`
    figures.note(`captures lost or doubled during ${what}`, '0', shown)
    const verify = ['exec', 'deploy/tollway-payments', '--', 'payments', 'verify']
    assert.match(await kubectl('-n', system, ...verify), /\nEverything adds up\.\n/)
    // A call without a decision may be counted or not.
    const missing = decisions.admitted() - ((await counted()) - countedBefore)
    assert.ok(missing >= 0 && missing <= decisions.undecided, `${missing} calls are not counted`)
    figures.note(`calls that are not counted during ${what}`, '0', `${missing}`)
  }

  /** An edit reaches every pod: a user who has made no call before gets this many. */
  async function edited(limit: number): Promise<void> {
    await apply(limited(limit))
    const expected = [...Array.from({ length: limit }, () => 200), 429]
    await decides(expected, user => callsTo(envoyUrl(envoyIp, 'service'), { 'x-user': user }))
    await apply(checkout)
    await allReady()
  }
})

type Release = 'previous' | 'today'

function optionsOf(operator: Release, ofPods: Release): readonly string[] {
  const image = (name: string, release: Release) =>
    release === 'previous' ? previousImage(name) : `tollway/${name}:dev`
  const images = [
    `operator.image=${image('operator', operator)}`,
    `rateLimit.pods.image=${image('ratelimit', ofPods)}`,
    `broker.pods.image=${image('broker', ofPods)}`,
    `payments.pods.image=${image('payments', ofPods)}`,
  ]
  return [...commonOptions('secretNamespaces={bakery}', ...images), ...untilReady]
}

/** All resources are enforced by all pods. */
async function allReady(): Promise<void> {
  const ready = ['wait', '--for=condition=Ready', '--timeout=90s']
  await kubectl('-n', 'shop', ...ready, 'rlc/checkout')
  await kubectl('-n', 'studio', ...ready, 'asr/avatars')
  await kubectl('-n', 'bakery', ...ready, 'mer/bakery')
}

/** Returns the counter of `alice` in the Redis of the release. */
async function counted(): Promise<number> {
  const service = await read<{ readonly spec: { readonly clusterIP: string } }>(
    system,
    'services/tollway-redis',
  )
  const server = { host: service?.spec.clusterIP ?? '', port: 6379 }
  const keys = (await askRedis(server, ['KEYS', '*alice*'])).split('\n').filter(key => key !== '')
  assert.ok(keys.length <= 1, keys.join())
  return keys[0] === undefined ? 0 : Number(await askRedis(server, ['GET', keys[0]]))
}

function limited(requestsPerUnit: number) {
  const unit = 'year'
  return {
    apiVersion,
    kind: 'RateLimitConfig',
    metadata: { name: 'checkout', namespace: 'shop' },
    spec: {
      domain: 'checkout',
      descriptors: [
        { key: 'user', rateLimit: { unit, requestsPerUnit } },
        { key: 'user', value: 'grace', rateLimit: { unit, requestsPerUnit: spentLimit } },
      ],
    },
  }
}

const checkout = limited(10_000_000)

const avatars = {
  apiVersion,
  kind: 'AnimationStreamRoute',
  metadata: { name: 'avatars', namespace: 'studio' },
  spec: { match: { streamIdPrefix: 's' }, lateJoiners: { from: 'start' } },
}
