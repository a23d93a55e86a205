import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { CORE_SCHEMA, load } from 'js-yaml'
import { apiVersion } from '../../crds/resource-kind.ts'
import { runTollway } from '../../operator/cli/tollway-program.ts'
import { createReflector, type Reflector } from '../../operator/controller/reflector.ts'
import { accessFromEnvironment } from '../../operator/environments/kubernetes/api/access.ts'
import {
  createKubeClient,
  createReflectorSource,
  type KubeClient,
} from '../../operator/environments/kubernetes/api/client.ts'
import { customResource } from '../../operator/environments/kubernetes/api/custom-resources.ts'
import type { ApiResource, KubeObject } from '../../operator/environments/kubernetes/api/kube-object.ts'
import type { StoredResource } from '../../operator/environments/kubernetes/status/stored-resource.ts'
import { FeedConnection } from '../../services/xds-client/feed-connection.ts'
import { XdsFeed } from '../../services/xds-client/xds-feed.ts'
import { percentile } from '../bench/percentiles.ts'
import { askRedis } from '../support/redis-command.ts'
import { runCaptured } from '../support/run-captured.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { root } from '../support/tollway.ts'
import {
  apply,
  eventually,
  isReady,
  kubectl,
  type Pod,
  pods,
  read,
  replaceAtOnce,
  restart,
} from './cluster.ts'
import { startControl } from './control-service.ts'
import { callsTo, decides } from './decides.ts'
import { envoyUrl, startDecisions } from './decisions.ts'
import { documentedEnvoy, routes } from './documented-envoy.ts'
import { envoyListener, routerFilter } from './envoy-listener.ts'
import { createFigures } from './figures.ts'
import { Admissions, describeCodes, startLoad } from './load.ts'
import { ensureInstalled, readyPods, system, upgrade } from './release.ts'
import { withTestImages } from './test-images.ts'

const rateLimitConfigs = customResource(rateLimitConfigKind)
const applicationExample = join(root, 'examples/kubernetes/application/application.yaml')
const envoyPod = readFileSync(join(import.meta.dirname, 'envoy.yaml'), 'utf8')
const ratelimit = 'app.kubernetes.io/name=ratelimit'
const operators = 'app.kubernetes.io/name=tollway-operator'
const changes = Number(process.env['E2E_CHANGES'] ?? 200)

const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

describe('rate limits in a cluster', { skip, timeout: 900_000 }, () => {
  const figures = createFigures('rate-limits')
  let client: KubeClient
  let limits: Reflector<KubeObject>
  let envoy = ''
  let envoyIp = ''

  before(async () => {
    await ensureInstalled()
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: 'shop' } })
    client = createKubeClient(await accessFromEnvironment(process.env), { random: Math.random })
    limits = createReflector({
      source: createReflectorSource(client, rateLimitConfigs),
      namespaces: 'all',
      onError: error => console.log(`the resources could not be followed: ${error}`),
      random: Math.random,
    })
    assert.ok(await limits.synced())
  })
  after(async () => {
    await limits?.stop()
    client?.close()
    await kubectl('delete', 'namespace', 'shop', '--wait=false')
    figures.write()
  })

  it('limits the unchanged application of examples/kubernetes', async () => {
    await apply(withTestImages(readFileSync(applicationExample, 'utf8')))
    await kubectl('-n', 'shop', 'wait', '--for=condition=Ready', 'rlc/checkout', '--timeout=120s')
    await kubectl('-n', 'shop', 'rollout', 'status', 'deploy/checkout', '--timeout=120s')
    const address = (await read<Service>('shop', 'services/checkout'))?.spec.clusterIP
    await decides([200, 200, 200, 429], user => callsTo(`http://${address}/`, { 'x-user': user }))
    await kubectl('-n', 'shop', 'delete', 'rlc/checkout', 'deploy/checkout', 'service/checkout')
  })

  it('limits the requests through an Envoy', async () => {
    await apply(checkout(3))
    await startControl('shop')
    await apply(shared)
    await apply(documentedEnvoy('shop', await quotaListener()))
    await apply(envoyPod)
    await apply(envoyPod.replace('name: envoy, namespace', 'name: second-envoy, namespace'))
    await kubectl('-n', 'shop', 'wait', '--for=condition=Ready', 'rlc', '--all', '--timeout=120s')
    await kubectl('-n', 'shop', 'wait', '--for=condition=Ready', 'pod', '-l', 'app=envoy', '--timeout=120s')
    envoyIp = (await read<Pod>('shop', 'pods/envoy'))?.status.podIP ?? ''
    envoy = envoyUrl(envoyIp, 'service')
    await eventually('Envoy to find the service', async () => (await fetch(envoy)).status === 200)
    await decides([200, 200, 200, 429, 429, 429], user => callsTo(envoy, { 'x-user': user }))
    // With its first bucket the service begins to learn, which ends before the test that needs it.
    await callsTo(`http://${envoyIp}:${sharedPort}/`, { 'x-user': 'alice' })(1)
    assert.match(await kubectl('-n', 'shop', 'get', 'rlc'), /checkout +checkout +1 +True +3\/3/)
  })

  it('enforces changes immediately', async () => {
    const times: number[] = []
    for (let change = 1; change <= changes; change++) {
      const beginMs = performance.now()
      const { metadata } = await client.apply(rateLimitConfigs, checkout(1000 + change), { force: true })
      await enforced(limits, metadata.generation ?? 0, 3)
      times.push(performance.now() - beginMs)
    }
    times.sort((a, b) => a - b)
    const [p50, p99] = [0.5, 0.99].map(share => Math.round(percentile(times, share)))
    const shown = `p50 ${p50} ms, p99 ${p99} ms`
    figures.note(`apply → enforced by 3 pods, ${changes} changes`, 'p50 < 100 ms, p99 < 500 ms', shown)
  })

  it('rejects an invalid resource when it is applied, or reports it in the status', async () => {
    const nested = checkout(1)
    const wrong = {
      ...nested,
      spec: { domain: 'checkout', descriptors: [{ key: 'a', descriptors: [noUnit] }] },
    }
    const beginMs = performance.now()
    await assert.rejects(apply(wrong), /set either unlimited to true, or both unit and requestsPerUnit/)
    figures.note('an invalid resource is rejected', '< 1 s', seconds(performance.now() - beginMs))
    const rival = { ...nested, metadata: { name: 'rival', namespace: 'default' } }
    await apply(rival)
    const appliedMs = performance.now()
    await eventually('the conflict in the status', async () =>
      /belongs to shop\/checkout/.test(messageOf(limits, 'default', 'rival')),
    )
    figures.note('a conflict is explained', '< 2 s', seconds(performance.now() - appliedMs))
    await kubectl('-n', 'default', 'delete', 'rlc', 'rival')
  })

  it('reports in the status which pod rejects what, and why', async t => {
    const [pod] = await readyPods(ratelimit)
    assert.ok(pod)
    const beganMs = performance.now()
    const stop = await rejectAs(pod, 'shop/checkout: there is no room for it here')
    t.after(async () => {
      await stop()
      // The newest stream of a pod decides, and that was the one of this test.
      await kubectl('-n', system, 'delete', 'pod', pod.metadata.name)
      await eventually('its successor', async () => (await readyPods(ratelimit)).length === 3)
    })
    await eventually('the rejection in the status', async () => {
      const message = messageOf(limits, 'shop', 'checkout', 'Programmed')
      return message.includes(pod.metadata.name) && message.includes('there is no room for it here')
    })
    figures.note('the status has a rejection', '< 2 s', seconds(performance.now() - beganMs))
  })

  it('restarts its pods without a failed call, or a call beyond two limits of a descriptor', async t => {
    const limit = 2000
    const bucket = { algorithm: 'TokenBucket', unit: 'second', requestsPerUnit: 1000, burst: 2000 }
    const several = {
      key: 'user',
      value: 'frank',
      limits: [{ unit: 'year', requestsPerUnit: limit }, bucket],
    }
    const { spec, ...resource } = checkout(1_000_000)
    await apply({ ...resource, spec: { ...spec, descriptors: [several, ...spec.descriptors] } })
    await kubectl('-n', 'shop', 'wait', '--for=condition=Ready', 'rlc/checkout', '--timeout=120s')
    const calls = await startDecisions(t, envoyIp, { admitted: 'bob', limited: 'frank' })
    await restart(system, 'tollway-ratelimit', ratelimit)
    await eventually('rejections', async () => (calls.limited.get(429) ?? 0) > 20, 240_000)
    figures.note('calls in a rolling restart', '0 failed', await calls.stop())
    // Envoy lets a call without a decision pass, and the call may be counted.
    const { undecided } = calls
    const admitted = calls.limited.get(200) ?? 0
    const shown = `${admitted} of ${limit}, ${undecided} of all calls without a decision`
    figures.note('calls admitted by two limits in a rolling restart', `${limit}`, shown)
    assert.ok(admitted >= limit && admitted <= limit + undecided, shown)
    // The load of the next tests is not limited.
    await apply(checkout(1_000_000))
  })

  it('restarts its pods while two proxies share a limit, without a failed request or one beyond it', async t => {
    const loads = await Promise.all(
      Object.entries(sharedLoads).map(async ([name, callsPerSecond]) => {
        const address = (await read<Pod>('shop', `pods/${name}`))?.status.podIP
        return startLoad(`http://${address}:${sharedPort}/`, { user: 'alice', callsPerSecond })
      }),
    )
    const admissions = new Admissions(loads, sharedPerSecond)
    t.after(async () => {
      admissions.stop()
      await Promise.all(loads.map(one => one.stop()))
      await kubectl('-n', 'shop', 'delete', 'rlc/shared', 'pod/second-envoy')
    })
    await eventually('the limit', async () => admissions.rate(5_000) <= sharedPerSecond * 1.05)
    const beganMs = performance.now()
    await restart(system, 'tollway-ratelimit', ratelimit)
    const restartedMs = performance.now()
    // Envoy reports every 5 s.
    await eventually(
      '90 % of the limit, two reports after the restart',
      async () => performance.now() > restartedMs + 10_000 && admissions.rate(5_000) >= sharedPerSecond * 0.9,
      30_000,
    )
    const beyond = admissions.mostBeyond(beganMs)
    const shown =
      `at most ${beyond.toFixed(0)} beyond ${sharedPerSecond}/s; admitted a second in each 5 s: ` +
      `${admissions.history(beganMs)}; ${loads.map(({ codes }) => describeCodes(codes)).join('; ')}`
    figures.note('requests of two proxies in a rolling restart', '0 failed', shown)
    const codes = loads.flatMap(one => [...one.codes.keys()])
    assert.deepEqual([...new Set(codes)].toSorted(), [200, 429], shown)
    assert.ok(beyond <= sharedPerSecond, shown)
    // Without a stream, each proxy would soon have the whole limit.
    assert.equal(await quotaStreams(), loads.length, shown)
  })

  it('accepts every new connection while all its pods are deleted at once', async () => {
    const [service, control] = await Promise.all(
      ['tollway-ratelimit-http', 'tollway-operator'].map(name => read<Service>(system, `services/${name}`)),
    )
    const replaced = await replaceAtOnce(system, ratelimit, {
      url: `http://${service?.spec.clusterIP}:8080/`,
      controlUrl: `http://${control?.spec.clusterIP}:8000/readyz`,
      acceptMs: 10_000,
    })
    figures.note('new connections while all pods are deleted', '0 failed', JSON.stringify(replaced))
    assert.ok(replaced.failed <= replaced.failedOfControl, JSON.stringify(replaced))
  })

  it('continues without operators, and a new leader acts soon', async t => {
    const load = await startDecisions(t, envoyIp, { admitted: 'carol' })
    const holder = await leader()
    const beginMs = performance.now()
    await kubectl('-n', system, 'delete', 'pod', podOf(holder), '--grace-period=0', '--force')
    await eventually('another to lead', async () => ![holder, ''].includes(await leader()))
    figures.note('another leads after a forced deletion', '< 20 s', seconds(performance.now() - beginMs))
    const next = await leader()
    await eventually('two operators', async () => (await readyPods(operators)).length === 2)
    const termMs = performance.now()
    const { uid } = (await client.get(podResource, { namespace: system, name: podOf(next) }))?.metadata ?? {}
    await client.delete(podResource, { namespace: system, name: podOf(next), uid: uid ?? '' })
    await eventually('another to lead', async () => ![next, ''].includes(await leader()))
    figures.note('another leads after SIGTERM', '< 2 s', seconds(performance.now() - termMs))
    await kubectl('-n', system, 'scale', 'deploy/tollway-operator', '--replicas=0')
    await eventually('no operator', async () => (await pods(system, operators)).length === 0)
    const answered = load.admitted()
    await eventually('calls without an operator', async () => load.admitted() > answered + 200)
    await kubectl('-n', system, 'scale', 'deploy/tollway-operator', '--replicas=2')
    await kubectl('-n', system, 'rollout', 'status', 'deploy/tollway-operator', '--timeout=120s')
    await load.stop()
    const applyMs = performance.now()
    const { metadata } = await client.apply(rateLimitConfigs, checkout(5), { force: true })
    await enforced(limits, metadata.generation ?? 0, 3)
    figures.note('enforced when operators are back', '< 10 s', seconds(performance.now() - applyMs))
  })

  it('follows a Secret that is edited to another Redis with a password, without a failed call', async t => {
    await apply(checkout(1_000_000))
    const password = randomUUID()
    await apply(secondRedis(password))
    await kubectl('-n', system, 'wait', '--for=condition=Ready', 'pod/second-redis', '--timeout=120s')
    const address = (await read<Pod>(system, 'pods/second-redis'))?.status.podIP ?? ''
    const load = await startDecisions(t, envoyIp, { admitted: 'erin' })
    const beginMs = performance.now()
    await setRedis(`redis://limits:${password}@${address}:6379`)
    figures.note('edited Secret → pods with the new Redis', '< 120 s', seconds(performance.now() - beginMs))
    assert.notEqual(await askRedis({ host: address, port: 6379 }, ['DBSIZE']), '0')
    const restored = setRedis('redis://tollway-redis:6379')
    // New operators read the Secret at once, and not only when they check it again.
    await kubectl('-n', system, 'rollout', 'restart', 'deploy/tollway-operator')
    await restored
    await load.stop()
    await kubectl('-n', system, 'delete', 'pod', 'second-redis', '--grace-period=0', '--force')
  })

  it("keeps its pods when the operator's Deployment is deleted", async t => {
    await apply(checkout(1_000_000))
    const before = (await readyPods(ratelimit)).map(({ metadata }) => metadata.uid)
    const load = await startDecisions(t, envoyIp, { admitted: 'dave' })
    await kubectl('-n', system, 'delete', 'deploy/tollway-operator', '--cascade=foreground', '--timeout=120s')
    const answered = load.admitted()
    // The garbage collector acts within seconds of a deletion; 2,000 calls take 10 s.
    await eventually('calls after the deletion', async () => load.admitted() > answered + 2000)
    await upgrade()
    figures.note("calls while the operator's Deployment is deleted", '0 failed', await load.stop())
    assert.deepEqual((await readyPods(ratelimit)).map(({ metadata }) => metadata.uid).sort(), before.sort())
    assert.equal((await readyPods(operators)).length, 2)
  })

  it('reverts manual changes', async () => {
    await kubectl('-n', system, 'delete', 'service', 'tollway-ratelimit-http')
    await kubectl('-n', system, 'scale', 'deploy/tollway-ratelimit', '--replicas=1')
    await eventually(
      'the Service',
      async () => (await read(system, 'services/tollway-ratelimit-http')) !== undefined,
    )
    await eventually('three pods', async () => (await readyPods(ratelimit)).length === 3)
  })

  /**
   * Connects to the feed as a pod with fewer features, with the fleet's certificate: rejects new content, and
   * accepts its replacement.
   */
  async function rejectAs(pod: Pod, problem: string): Promise<() => Promise<void>> {
    const secret = await read<Secret>(system, 'secrets/tollway-feed-client')
    const service = await read<Service>(system, 'services/tollway-operator')
    const problems = [problem]
    const pem = (name: string) => Buffer.from(secret?.data[name] ?? '', 'base64').toString()
    const credentials = { ca: pem('ca.crt'), identity: { cert: pem('tls.crt'), key: pem('tls.key') } }
    const feed = new XdsFeed({
      typeUrl: rateLimitTypeUrl,
      load: async () => problems.splice(0),
      connection: new FeedConnection({
        server: `${service?.spec.clusterIP}:18000`,
        tls: {
          credentials: () => credentials,
          serverName: `tollway-operator.${system}.svc`,
          onChange: () => () => {},
          missing: () => '',
          close() {},
        },
        maxReceiveBytes: 1024 * 1024,
      }),
      nodeId: pod.metadata.name,
      nodeMetadata: new Map([
        ['pod', pod.metadata.name],
        ['namespace', system],
        ['uid', pod.metadata.uid],
      ]),
      connectRetryMs: 200,
      backoff: { initialMs: 200, maxMs: 1_000, factor: 2, jitter: 0 },
      random: Math.random,
      clock: systemClock,
      log: silentLog,
    })
    feed.start()
    return () => feed.stop()
  }

  async function leader(): Promise<string> {
    const lease = await client.get(leaseResource, { namespace: system, name: 'tollway-operator' })
    return (lease?.['spec'] as { holderIdentity?: string } | undefined)?.holderIdentity ?? ''
  }
})

interface Secret {
  readonly data: Readonly<Record<string, string>>
}

interface Service {
  readonly spec: { readonly clusterIP: string }
}

const podResource: ApiResource = { group: '', version: 'v1', plural: 'pods', namespaced: true }
const leaseResource: ApiResource = {
  group: 'coordination.k8s.io',
  version: 'v1',
  plural: 'leases',
  namespaced: true,
}
const noUnit = { key: 'b', rateLimit: { requestsPerUnit: 1 } }

/** Edits the Secret with the address of the Redis, and waits until every pod is new and ready. */
async function setRedis(url: string): Promise<void> {
  const before = new Set((await pods(system, ratelimit)).filter(isReady).map(({ metadata }) => metadata.uid))
  const patch = JSON.stringify({ stringData: { url } })
  await kubectl('-n', system, 'patch', 'secret', 'tollway-redis', '--type=merge', '-p', patch)
  await eventually(
    'every pod to be new',
    async () => {
      const found = await pods(system, ratelimit)
      return found.length === before.size && found.every(pod => isReady(pod) && !before.has(pod.metadata.uid))
    },
    240_000,
  )
}

/** A user `limits` has the password; the tests read it without one. */
function secondRedis(password: string) {
  const login = ['--user', 'limits', 'on', `>${password}`, '~*', '&*', '+@all']
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'second-redis', namespace: system },
    spec: {
      terminationGracePeriodSeconds: 1,
      securityContext: { runAsNonRoot: true, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'redis',
          image: 'tollway/test-redis:dev',
          args: ['--protected-mode', 'no', '--save', '', '--dir', '/tmp', ...login],
          imagePullPolicy: 'Never',
          // The request of the chart's own Redis. A Redis without one waits for a CPU behind all other pods.
          resources: { requests: { cpu: '50m', memory: '64Mi' } },
          readinessProbe: { tcpSocket: { port: 6379 }, periodSeconds: 1 },
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  }
}

const sharedPerSecond = 100
const sharedPort = 10002
/** The requests a second of the proxies that share the limit: together twice the limit. */
const sharedLoads = { envoy: 160, 'second-envoy': 40 } as const

const shared = {
  apiVersion,
  kind: 'RateLimitConfig',
  metadata: { name: 'shared', namespace: 'shop' },
  spec: {
    domain: 'shared',
    descriptors: [
      { key: 'user', rateLimit: { unit: 'second', requestsPerUnit: sharedPerSecond, delivery: 'Quota' } },
    ],
  },
}

/** The listener with the filter that `tollway translate` prints. */
async function quotaListener(): Promise<object> {
  const file = join(temporaryFolder('shared'), 'limits.json')
  writeFileSync(file, JSON.stringify(shared))
  const args = ['translate', '-f', file, '-o', 'envoy-quota', '--header', 'user=x-user']
  const { code, out, err } = await runCaptured(output => runTollway(args, output))
  assert.equal(code, 0, err)
  return envoyListener({
    ...{ host: '0.0.0.0', port: sharedPort, name: 'shared' },
    filters: [...(load(out, { schema: CORE_SCHEMA }) as readonly object[]), routerFilter],
    action: { route: { cluster: routes.service.cluster } },
  })
}

/** The streams of proxies that the pods have. */
async function quotaStreams(): Promise<number> {
  const counts = (await readyPods(ratelimit)).map(async ({ status }) => {
    const metrics = await (await fetch(`http://${status.podIP}:9090/metrics`)).text()
    return Number(/^ratelimit_quota_streams (\d+)$/m.exec(metrics)?.[1] ?? 0)
  })
  return (await Promise.all(counts)).reduce((sum, count) => sum + count, 0)
}

function checkout(requestsPerUnit: number) {
  return {
    apiVersion,
    kind: 'RateLimitConfig',
    metadata: { name: 'checkout', namespace: 'shop' },
    spec: {
      domain: 'checkout',
      descriptors: [{ key: 'user', rateLimit: { unit: 'hour', requestsPerUnit } }],
    },
  }
}

/** Resolves when the status says that `count` pods enforce this generation. */
function enforced(limits: Reflector<KubeObject>, generation: number, count: number): Promise<void> {
  return eventually(`generation ${generation} to be enforced`, async () => {
    const { status } = (limits.get('shop', 'checkout') ?? {}) as Partial<StoredResource>
    const ready = status?.conditions?.find(({ type }) => type === 'Ready')
    return (
      ready?.status === 'True' &&
      ready.observedGeneration === generation &&
      status?.enforced === `${count}/${count}`
    )
  })
}

function messageOf(
  limits: Reflector<KubeObject>,
  namespace: string,
  name: string,
  condition = 'Accepted',
): string {
  const { status } = (limits.get(namespace, name) ?? {}) as Partial<StoredResource>
  return status?.conditions?.find(({ type }) => type === condition)?.message ?? ''
}

function podOf(identity: string): string {
  return identity.split('_')[0] ?? ''
}

function seconds(ms: number): string {
  return `${(ms / 1000).toFixed(1)} s`
}
