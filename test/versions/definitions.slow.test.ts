import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { load } from 'js-yaml'
import type { StreamList } from '../../operator/api/stream-shapes.ts'
import { makeOperatorAccount } from '../../operator/environments/kubernetes/testing/service-account.ts'
import { openAnimationClient } from '../../services/broker/servers/testing/animation-client.ts'
import { encodeText } from '../../services/broker/streams/testing/simulation-under-test.ts'
import { startBroker } from '../support/broker-process.ts'
import { freePorts } from '../support/free-ports.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { writeKubeconfig } from '../support/kubeconfig.ts'
import { fedPodSettings, feedClientSettings, playPod, writeFeedCertificate } from '../support/played-pod.ts'
import { startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'
import { startRateLimit } from '../support/rate-limit-process.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  checkOutPreviousRelease,
  fileOfPreviousRelease,
  missingPreviousRelease,
  previousChart,
} from './previous-release.ts'

const charts = { old: previousChart(), today: join(root, 'charts/tollway') }
type Version = keyof typeof charts

interface Definition {
  readonly metadata: { readonly name: string }
  readonly spec: { readonly names: { readonly plural: string } }
}

interface Resource {
  readonly metadata: { readonly generation: number }
  readonly spec: object
  readonly status?: {
    readonly observedGeneration?: number
    readonly enforced?: string
    readonly conditions?: readonly {
      readonly type: string
      readonly status: string
      readonly reason: string
      readonly message: string
    }[]
  }
}

/** Returns the definitions of a chart, without its admission policy. */
function definitionsOf(chart: string): readonly Definition[] {
  const folder = join(chart, 'files/crds')
  const files = readdirSync(folder).filter(name => name.startsWith('tollway.dev_'))
  return files.map(name => load(readFileSync(join(folder, name), 'utf8')) as Definition)
}

const pathOfKubectl = [process.env['KUBE_ASSETS'], process.env['PATH']].join(delimiter)

const plain = { unit: 'hour', requestsPerUnit: 5 }
const extended = { ...plain, algorithm: 'TokenBucket', burst: 9 }
const limits = (rateLimit: object) => withRules([{ key: 'user', value: '', rateLimit }])
const withRules = (descriptors: readonly object[]) => ({
  apiVersion: 'tollway.dev/v1alpha1',
  kind: 'RateLimitConfig',
  metadata: { name: 'checkout' },
  spec: { domain: 'checkout', descriptors },
})

describe('definitions and operators of 0.1.0 and of the current version', {
  skip: missingKubeAssets() || missingPreviousRelease(),
  timeout: 120_000,
}, () => {
  const place = temporaryFolder('definitions')
  let api: KubeApiServer

  before(async () => {
    checkOutPreviousRelease()
    api = await startKubeApiServer()
  })
  after(() => api?.stop())

  async function call(method: string, path: string, body?: object): Promise<unknown> {
    const answer = await api.call(method, path, body)
    assert.ok(answer.status < 300, `${method} ${path}: ${JSON.stringify(answer.body)}`)
    return answer.body
  }

  /** Applies them as helm does. Resolves when the API server serves what `serves` checks. */
  async function install(version: Version): Promise<void> {
    for (const definition of definitionsOf(charts[version])) {
      const { name } = definition.metadata
      const path = `/apis/apiextensions.k8s.io/v1/customresourcedefinitions/${name}`
      await call('PATCH', `${path}?fieldManager=helm&force=true`, definition)
      const kind = `/apis/tollway.dev/v1alpha1/${definition.spec.names.plural}`
      await waitFor(name, async () => (await api.call('GET', kind)).status === 200)
    }
    const has = version === 'today'
    await waitFor(`the fields of ${version}`, async () => {
      const dryRun = `${pathOf('default')}?dryRun=All`
      const { body } = await api.call('POST', dryRun, limits(extended))
      return JSON.stringify(body).includes('TokenBucket') === has
    })
  }

  const pathOf = (namespace: string) => `/apis/tollway.dev/v1alpha1/namespaces/${namespace}/ratelimitconfigs`

  async function startOperator(t: TestContext, version: Version, namespace: string, broker: object = {}) {
    const [operatorPort = 0, feedPort = 0] = await freePorts(2)
    const token = await makeOperatorAccount(api, namespace)
    const kubeconfig = writeKubeconfig(join(place, namespace), api.url, token, namespace)
    const rateLimit = { enabled: true, replicas: 1, backend: { type: 'memory' } }
    const config = join(place, `${namespace}.json`)
    const settings = { operatorPort, feedPort, watchNamespaces: [namespace], rateLimit, broker }
    writeFileSync(config, JSON.stringify(settings))
    await call('POST', `/api/v1/namespaces/${namespace}/configmaps`, {
      metadata: { name: 'tollway-operator' },
    })
    const pod = { POD_NAME: 'operator-0', POD_NAMESPACE: namespace, POD_IP: '127.0.0.1' }
    const path = 'operator/cli/tollway.ts'
    const program = startProgram(
      process.execPath,
      [
        version === 'old' ? fileOfPreviousRelease(path) : programs.tollway,
        ...['operator', '--config', config],
      ],
      { env: { PATH: process.env['PATH'], KUBECONFIG: kubeconfig, ...pod } },
    )
    t.after(async () => {
      await program.end('SIGKILL')
    })
    return { operatorPort, feedPort }
  }

  const read = async (namespace: string) => (await call('GET', `${pathOf(namespace)}/checkout`)) as Resource

  /** The condition Accepted for the current content. */
  async function accepted(namespace: string): Promise<string> {
    return waitFor(
      `the status in ${namespace}`,
      async () => {
        const { metadata, status } = await read(namespace)
        if (status?.observedGeneration !== metadata.generation) return false
        const found = status.conditions?.find(({ type }) => type === 'Accepted')
        return found && `${found.status} ${found.message}`
      },
      30_000,
    )
  }

  const write = async (namespace: string, rateLimit: object) => {
    const found = await read(namespace)
    await call('PUT', `${pathOf(namespace)}/checkout`, { ...found, spec: limits(rateLimit).spec })
  }

  it('each operator works with the definitions of the other, through an upgrade and a rollback', async t => {
    await install('old')
    await startOperator(t, 'today', 'upgraded')
    await startOperator(t, 'old', 'left')
    for (const namespace of ['upgraded', 'left']) {
      await call('POST', pathOf(namespace), limits(plain))
      assert.match(await accepted(namespace), /^True/)
    }

    await install('today')
    for (const namespace of ['upgraded', 'left']) {
      assert.deepEqual((await read(namespace)).spec, limits(plain).spec, 'stored resources are the same')
      await write(namespace, extended)
    }
    assert.match(await accepted('upgraded'), /^True/)
    // The watch of an operator that ran before the upgrade hides the new fields. A later operator gets them.
    await startOperator(t, 'old', 'late')
    await call('POST', pathOf('late'), limits(extended))
    assert.match(await accepted('late'), /^False .*algorithm/)
    await write('late', plain)
    assert.match(await accepted('late'), /^True/)
    await write('left', { ...plain, requestsPerUnit: 6 })
    assert.match(await accepted('left'), /^True/)

    await install('old')
    // The stored resource has the new fields until it is written; readers do not get them.
    assert.deepEqual((await read('upgraded')).spec, limits(plain).spec)
    await write('upgraded', { ...plain, requestsPerUnit: 7 })
    assert.match(await accepted('upgraded'), /^True/)
    await write('left', { ...plain, requestsPerUnit: 8 })
    assert.match(await accepted('left'), /^True/)
  })

  for (const onServer of [false, true]) {
    const command = onServer ? 'kubectl apply --server-side' : 'kubectl apply'
    it(`${command} changes and removes rules that it applied with the definitions of 0.1.0`, async () => {
      await install('old')
      const namespace = onServer ? 'applied-on-server' : 'applied-by-client'
      await call('POST', '/api/v1/namespaces', { metadata: { name: namespace } })
      const kubeconfig = writeKubeconfig(join(place, namespace), api.url, api.token, namespace)
      const env = { PATH: pathOfKubectl, HOME: place }
      const apply = async (...descriptors: readonly object[]) => {
        const manifest = join(place, `${namespace}.json`)
        writeFileSync(manifest, JSON.stringify(withRules(descriptors)))
        const options = ['--kubeconfig', kubeconfig, ...(onServer ? ['--server-side'] : [])]
        execFileSync('kubectl', ['apply', ...options, '-f', manifest], { env })
        return ((await read(namespace)).spec as ReturnType<typeof withRules>['spec']).descriptors
      }
      const pay = { key: 'path', value: '/pay', rateLimit: plain }
      const refund = { key: 'path', value: '/refund', rateLimit: plain }
      const any = { key: 'path', rateLimit: plain }
      assert.deepEqual(await apply(pay, refund, any), [pay, refund, { ...any, value: '' }])

      await install('today')
      const paths = { ...pay, match: { prefix: '/pay' } }
      const networks = { ...any, key: 'address', groupBy: { ipv6Prefix: 64 } }
      const applied = [paths, networks, { ...any, match: { regex: '/v[0-9]+' } }]
      const expected = applied.map(rule => ({ value: '', ...rule }))
      // The server keeps the order of rules that it merges.
      assert.deepEqual(new Set(await apply(...applied)), new Set(expected))
      assert.deepEqual(await apply(pay), [pay], 'match is removed with its rule, and from it')
    })
  }

  /** Resolves with a function that starts a rate limit process as a pod of an operator. */
  async function preparePods(t: TestContext, namespace: string, feedPort: number) {
    const files = join(place, `feed-${namespace}`)
    await writeFeedCertificate({ api, namespace }, files)
    const deployment = `/apis/apps/v1/namespaces/${namespace}/deployments/tollway-ratelimit`
    await waitFor('the Deployment', async () => (await api.call('GET', deployment)).status === 200)
    return async (version: Version) => {
      const env = {
        ...fedPodSettings(namespace, files),
        CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
        CONFIG_GRPC_XDS_NODE_METADATA: await playPod({ api, namespace }, `pod-of-${version}`),
      }
      const old = fileOfPreviousRelease('services/ratelimit/main.ts')
      return startRateLimit(t, env, version === 'old' ? old : programs.rateLimit)
    }
  }

  for (const [operator, pod] of [
    ['today', 'old'],
    ['old', 'today'],
  ] as const) {
    it(`the status by the operator of ${operator} counts a pod of ${pod}, through an edit`, async t => {
      await install('today')
      const namespace = `pod-of-${pod}`
      const { operatorPort, feedPort } = await startOperator(t, operator, namespace)
      const service = await (await preparePods(t, namespace, feedPort))(pod)
      await call('POST', pathOf(namespace), limits({ ...plain, requestsPerUnit: 1 }))
      await service.serves()
      await enforced(namespace, 1)
      const codes = [await service.ask('checkout', 'user', 'x'), await service.ask('checkout', 'user', 'x')]
      assert.deepEqual(codes, [200, 429])
      await write(namespace, { ...plain, requestsPerUnit: 0 })
      await enforced(namespace, 2)
      assert.equal(await service.ask('checkout', 'user', 'y'), 429)
      if (operator === 'today') await assertCountersAreAbsent(operatorPort)
    })
  }

  it('the status says which of two pods gets no rule with match, since it is of 0.1.0', async t => {
    await install('today')
    const namespace = 'mixed-pods'
    const { feedPort } = await startOperator(t, 'today', namespace)
    const startPod = await preparePods(t, namespace, feedPort)
    const [old, today] = [await startPod('old'), await startPod('today')]
    const rule = { key: 'user', value: '', rateLimit: { ...plain, requestsPerUnit: 1 } }
    await call('POST', pathOf(namespace), withRules([rule]))
    await Promise.all([old.serves(), today.serves()])
    await enforced(namespace, 1, '2/2')

    const found = await read(namespace)
    const matching = { ...rule, value: 'guests', match: { prefix: 'guest-' } }
    await call('PUT', `${pathOf(namespace)}/checkout`, { ...found, spec: withRules([matching]).spec })
    const { conditions = [] } = await enforced(namespace, 2, '1/2')
    const { reason, message } = conditions.find(({ type }) => type === 'Enforced') ?? {}
    assert.equal(reason, 'FeatureMissing')
    assert.equal(
      message,
      '1 of 2 processes enforce it; 1 of them does not get it, because it lacks match: ' +
        'update it to the version of the operator',
    )
    const ask = (pod: typeof old, user: string) => pod.ask('checkout', 'user', user)
    assert.deepEqual([await ask(today, 'guest-1'), await ask(today, 'guest-1')], [200, 429])
    assert.deepEqual([await ask(today, 'anna'), await ask(today, 'anna')], [200, 200])
    assert.deepEqual(
      [await ask(old, 'anna'), await ask(old, 'anna')],
      [200, 429],
      'it keeps the earlier rule',
    )
  })

  for (const [operator, pod] of [
    ['today', 'old'],
    ['old', 'today'],
  ] as const) {
    it(`a broker of ${pod} serves the routes and streams of an operator of ${operator}`, async t => {
      await install('today')
      const namespace = `broker-of-${pod}`
      const plan = { enabled: true, replicas: 1, streamLog: { type: 'memory' } }
      const { operatorPort, feedPort } = await startOperator(t, operator, namespace, plan)
      const files = join(place, `feed-${namespace}`)
      await writeFeedCertificate({ api, namespace }, files)
      const deployment = `/apis/apps/v1/namespaces/${namespace}/deployments/tollway-broker`
      await waitFor('the Deployment', async () => (await api.call('GET', deployment)).status === 200)
      const main = pod === 'old' ? fileOfPreviousRelease('services/broker/main.ts') : undefined
      const env = {
        ROUTES: 'feed',
        ...feedClientSettings(namespace, files),
        CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
        CONFIG_GRPC_XDS_NODE_METADATA: await playPod({ api, namespace }, 'played', {}, 'broker'),
      }
      const { address, program } = await startBroker(t, env, undefined, main)
      const routes = `/apis/tollway.dev/v1alpha1/namespaces/${namespace}/animationstreamroutes`
      const spec = { match: { streamIdPrefix: 'kiosk' } }
      const metadata = { name: 'kiosk' }
      await call('POST', routes, {
        ...{ apiVersion: 'tollway.dev/v1alpha1', kind: 'AnimationStreamRoute', metadata, spec },
      })
      await waitFor('the route to be enforced', async () => {
        const { status } = (await call('GET', `${routes}/kiosk`)) as Resource
        return status?.enforced === '1/1'
      })
      const push = openAnimationClient(t, address).push()
      push.write(encodeText('header', 'one'))
      await push.headers
      if (operator === 'today') {
        const lost = await waitFor('the broker in the answer', () => absentBrokers(operatorPort))
        assert.deepEqual(lost, [{ broker: 'played', problem: 'has no session with the operator' }])
      }
      push.write(encodeText('SUCCESS'))
      push.end()
      assert.match(await push.answer, /^SUCCESS 2 messages/)
      assert.doesNotMatch(program.output(), /answer the operator|session/)
    })
  }

  /** The brokers without an answer in the list of requests. */
  async function absentBrokers(operatorPort: number) {
    const headers = { authorization: `Bearer ${api.token}` }
    const answer = await fetch(`http://127.0.0.1:${operatorPort}/api/v1/streams`, { headers })
    const { missing } = (await answer.json()) as StreamList
    return missing.length > 0 && missing
  }

  const enforced = (namespace: string, generation: number, by = '1/1') =>
    waitFor(
      `generation ${generation} to be enforced by ${by} in ${namespace}`,
      async () => {
        const { status } = await read(namespace)
        return status?.observedGeneration === generation && status.enforced === by && status
      },
      30_000,
    )

  /** A pod of 0.1.0 reports no counters, and the API says so. */
  async function assertCountersAreAbsent(operatorPort: number): Promise<void> {
    const headers = { authorization: `Bearer ${api.token}` }
    const url = `http://127.0.0.1:${operatorPort}/api/v1/counters?domain=checkout&descriptor=user=x`
    const answer = await fetch(url, { headers })
    assert.equal(answer.status, 503)
    assert.match(await answer.text(), /no rate limit process reports its decisions to an operator/)
  }
})
