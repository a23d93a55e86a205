import assert from 'node:assert/strict'
import { randomUUID } from 'node:crypto'
import { join } from 'node:path'
import { after, before, describe, it, type TestContext } from 'node:test'
import { create, type MessageInitShape, toBinary } from '@bufbuild/protobuf'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { SharingStatus } from '@tollway/crds/rate-limit-config.ts'
import { createGrpcClient } from '@tollway/grpc/client/client.ts'
import { RateLimitQuotaUsageReportsSchema } from '@tollway/proto/envoy/service/rate_limit_quota/v3/rlqs'
import { rateLimitTypeUrl } from '@tollway/ratelimit/rules/model.ts'
import { freePorts } from '../../../test/support/free-ports.ts'
import {
  type ApiAnswer,
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../test/support/kube-api-server.ts'
import { fedPodSettings, playPod, writeFeedCertificate } from '../../../test/support/played-pod.ts'
import { startRateLimit } from '../../../test/support/rate-limit-process.ts'
import { startRedis } from '../../../test/support/redis-server.ts'
import { missingProgram } from '../../../test/support/require-server.ts'
import { serveKinds } from '../../../test/support/serve-kinds.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { rateLimitConfigs } from '../../kinds/rate-limit-config/rate-limit-config.ts'
import type { StatusReport } from '../../status/status-report.ts'
import { Feed } from '../../xds/feed.ts'
import type { KubeApiAccess } from './api/access.ts'
import { createKubeClient } from './api/client.ts'
import { openClusterController, startKinds } from './controller.ts'
import { startInCluster } from './start.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from './testing/service-account.ts'

const namespace = 'tollway-system'
const quotaPath = '/envoy.service.rate_limit_quota.v3.RateLimitQuotaService/StreamRateLimitQuotas'
const deployments = `/apis/apps/v1/namespaces/${namespace}/deployments`
const configMaps = `/api/v1/namespaces/${namespace}/configmaps`
const routes = '/apis/tollway.dev/v1alpha1/namespaces/default/animationstreamroutes'
const admission = '/apis/admissionregistration.k8s.io/v1'
const limits = '/apis/tollway.dev/v1alpha1/namespaces/default/ratelimitconfigs'

describe('the operator on a real API server', { skip: missingKubeAssets(), timeout: 220_000 }, () => {
  const place = temporaryFolder('operator')
  let api: KubeApiServer
  let access: KubeApiAccess

  before(async () => {
    api = await startKubeApiServer()
    await serveKinds(api)
    const token = await makeOperatorAccount(api, namespace)
    access = writeServiceAccount(place, await addressOf(api), { namespace, token })
    await make(configMaps, { metadata: { name: 'tollway-operator' } })
  })
  after(async () => {
    await api?.stop()
  })

  const make = async (path: string, object: unknown): Promise<Record<string, unknown>> => {
    const answer = await api.call('POST', path, object)
    assert.equal(answer.status, 201, JSON.stringify(answer.body))
    return answer.body as Record<string, unknown>
  }

  /** Removes the pod when the test ends. In later tests it would count as a process that enforces nothing. */
  function removePod(t: TestContext, name: string): void {
    const path = `/api/v1/namespaces/${namespace}/pods/${name}?gracePeriodSeconds=0`
    t.after(async () => void (await api.call('DELETE', path)))
  }

  async function startOperator(rateLimit: object = { backend: { type: 'memory' } }) {
    const [operatorPort = 0, feedPort = 0] = await freePorts(2)
    const written = {
      operatorPort,
      feedPort,
      lease: { durationSeconds: 3, renewDeadlineSeconds: 2, retrySeconds: 1 },
      rateLimit: { replicas: 1, ...rateLimit },
    }
    const judged = validateClusterConfig(written)
    assert.ok('value' in judged)
    const pod = { name: 'operator-0', namespace, ip: '127.0.0.1', host: '127.0.0.1', revision: 'first' }
    const operator = await startInCluster({ config: judged.value, access, pod, log: silentLog })
    return { operator, operatorPort, feedPort }
  }

  it('creates the workload, and reports what a pod enforces', async t => {
    const { operator, operatorPort, feedPort } = await startOperator()
    t.after(() => operator.stop())
    removePod(t, 'played')

    await waitFor(
      'the Deployment',
      async () => (await api.call('GET', `${deployments}/tollway-ratelimit`)).status === 200,
    )
    const files = join(place, 'feed')
    await writeFeedCertificate({ api, namespace }, files)
    const service = await startRateLimit(t, {
      ...fedPodSettings(namespace, files),
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
      CONFIG_GRPC_XDS_NODE_METADATA: await playPod({ api, namespace }, 'played'),
    })
    await service.serves()

    await make(limits, checkout('checkout'))
    await waitFor(
      'it to be enforced',
      async () => readyOf(await api.call('GET', `${limits}/checkout`)) === 'True',
    )
    const { status } = (await api.call('GET', `${limits}/checkout`)).body as { status: { enforced: string } }
    assert.equal(status.enforced, '1/1')
    const metrics = await (await fetch(`http://127.0.0.1:${operatorPort}/metrics`)).text()
    assert.match(metrics, /tollway_feed_connected_pods 1\n/)
    assert.match(metrics, /tollway_propagation_seconds_count 1\n/)
    const events = await api.call('GET', '/apis/events.k8s.io/v1/namespaces/default/events')
    const { items } = events.body as {
      items: { reportingController: string; reason: string; note: string }[]
    }
    // The API server also records Events of its own there.
    const ours = items.filter(({ reportingController }) => reportingController === 'tollway.dev/operator')
    assert.deepEqual(
      ours.map(({ reason, note }) => `${reason}: ${note}`),
      ['Enforced: 1 of 1 processes enforce it'],
    )

    const secret = `whsec_${Buffer.from('a-secret-that-nobody-sees').toString('base64')}`
    const stringData = { token: 'a-token-that-nobody-sees', secret }
    const tokens = { metadata: { name: 'tokens' }, stringData }
    await make('/api/v1/namespaces/default/secrets', tokens)
    await make(routes, kiosk('open', 'tokens'))
    await make(routes, kiosk('closed', 'missing'))
    await make(routes, notifying('posting', 'tokens'))
    await make(routes, notifying('silent', 'missing'))
    const programmed = async (name: string) =>
      conditionOf(await api.call('GET', `${routes}/${name}`), 'Programmed')?.reason
    await waitFor('the tokens to be read', async () => (await programmed('open')) === 'InFeed')
    await waitFor(
      'the other one to be reported',
      async () => (await programmed('closed')) === 'SecretMissing',
    )
    await waitFor('the signing secret', async () => (await programmed('posting')) === 'InFeed')
    await waitFor('the missing one', async () => (await programmed('silent')) === 'SecretMissing')
    const statuses = await api.call('GET', routes)
    assert.ok(!JSON.stringify(statuses.body).includes(secret.slice('whsec_'.length)))
    const { body } = await api.call('GET', `${routes}/open`)
    assert.doesNotMatch(JSON.stringify(body), /a-token-that-nobody-sees/)
    const route = (body as { status: Record<string, unknown> }).status
    assert.deepEqual([route['activeStreams'], route['consumers']], [0, 0])
  })

  it('reports a backend that fails later as a condition, a metric and in the status', {
    skip: missingProgram('redis-server'),
  }, async t => {
    const redis = await startRedis()
    t.after(() => redis.stop())
    removePod(t, 'with-redis')
    const { operator, operatorPort, feedPort } = await startOperator()
    t.after(() => operator.stop())
    await waitFor(
      'the Deployment',
      async () => (await api.call('GET', `${deployments}/tollway-ratelimit`)).status === 200,
    )
    const files = join(place, 'feed-of-backend')
    await writeFeedCertificate({ api, namespace }, files)
    const [debugPort = 0] = await freePorts(1)
    const service = await startRateLimit(t, {
      ...fedPodSettings(namespace, files),
      BACKEND_TYPE: 'redis',
      KVSTORE_SOCKET_TYPE: 'tcp',
      KVSTORE_URL: `127.0.0.1:${redis.port}`,
      DEBUG_PORT: `${debugPort}`,
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
      CONFIG_GRPC_XDS_NODE_METADATA: await playPod({ api, namespace }, 'with-redis', { metrics: debugPort }),
    })
    await service.serves()
    const stored = () => api.call('GET', `${limits}/late`)
    await make(limits, checkout('late'))
    await waitFor('it to be enforced', async () => readyOf(await stored()) === 'True')
    const page = await (await fetch(`http://127.0.0.1:${operatorPort}/status`)).text()
    assert.match(page, /"kind": "RateLimitConfig",\s+"conditions"/)
    assert.doesNotMatch(page, /"late"|checkout/, 'a name of a tenant')

    await redis.kill('SIGKILL')
    const condition = await waitFor(
      'the condition',
      async () => conditionOf(await stored(), 'Degraded') ?? false,
      20_000,
    )
    assert.deepEqual([condition.status, condition.reason], ['True', 'BackendUnavailable'])
    assert.match(condition.message, /^The backend of ratelimit fails\. with-redis: .*ECONNREFUSED/)
    assert.equal(readyOf(await stored()), 'True')
    const metrics = await (await fetch(`http://127.0.0.1:${operatorPort}/metrics`)).text()
    assert.match(metrics, /^tollway_backend_failing_pods\{service="ratelimit"\} 1$/m)
    const report = async () =>
      (await (await fetch(`http://127.0.0.1:${operatorPort}/status`)).json()) as StatusReport
    const [pod] = (await report()).replicas.filter(({ name }) => name === 'with-redis')
    assert.equal(pod?.ready, true)
    assert.match(pod?.backendProblem ?? '', /ECONNREFUSED/)

    await redis.restart()
    const isFailing = async () =>
      (await report()).replicas.some(replica => replica.backendProblem !== undefined)
    await waitFor('the recovery to be reported', async () => !(await isFailing()), 20_000)
  })

  it('writes what proxies share when it has weight, and which pod does not report', async t => {
    const { operator, feedPort } = await startOperator()
    t.after(() => operator.stop())
    removePod(t, 'sharing')
    await waitFor(
      'the Deployment',
      async () => (await api.call('GET', `${deployments}/tollway-ratelimit`)).status === 200,
    )
    const files = join(place, 'feed-of-shares')
    await writeFeedCertificate({ api, namespace }, files)
    const service = await startRateLimit(t, {
      ...fedPodSettings(namespace, files),
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
      CONFIG_GRPC_XDS_NODE_METADATA: await playPod({ api, namespace }, 'sharing'),
    })
    await service.serves()
    await make(limits, checkout('shared', { unit: 'second', requestsPerUnit: 100, delivery: 'Quota' }))
    await make(limits, checkout('plain'))
    const readStored = async (name: string) => {
      const { body } = await api.call('GET', `${limits}/${name}`)
      return body as { status?: Record<string, unknown>; metadata: { resourceVersion: string } }
    }
    const quota = async () => (await readStored('shared')).status?.['quota'] as SharingStatus['quota']
    const client = createGrpcClient(`127.0.0.1:${service.grpcPort}`)
    t.after(() => client.close())
    const encode = (reports: MessageInitShape<typeof RateLimitQuotaUsageReportsSchema>) =>
      toBinary(RateLimitQuotaUsageReportsSchema, create(RateLimitQuotaUsageReportsSchema, reports))
    const call = client.bidi(quotaPath, { encode, decode: () => undefined })
    let reports = 0n
    const report = async () => {
      reports += 1n
      const requests = 300n + (reports % 7n)
      const bucketId = { bucket: { user: 'alice' } }
      const used = { bucketId, numRequestsAllowed: requests, timeElapsed: { seconds: 3n } }
      await call.write({ domain: 'shared', bucketQuotaUsages: [used] })
    }
    const reporting = setInterval(report, 1_000)
    t.after(() => clearInterval(reporting))
    await waitFor('the proxy', async () => (await quota())?.converged === true, 80_000)
    assert.deepEqual(
      { ...(await quota()), lastConvergence: '' },
      {
        members: 1,
        rules: [{ rule: 'shared.user', buckets: 1, assignedPercent: 99, atOnceAtMost: 100 }],
        converged: true,
        lastConvergence: '',
      },
    )
    const { resourceVersion } = (await readStored('shared')).metadata
    const last = reports + 10n
    await waitFor('ten reports', () => reports >= last, 20_000)
    assert.equal((await readStored('shared')).metadata.resourceVersion, resourceVersion, 'nothing of weight')
    assert.equal((await readStored('plain')).status?.['quota'], undefined)
    await service.program.end('SIGKILL')
    const missing = async () => (await quota())?.missingPods ?? false
    assert.deepEqual(await waitFor('the missing pod', missing, 80_000), ['sharing'])
    assert.equal((await quota())?.members, undefined, 'not 0')
  })

  it('repeats the start of a kind whose first reconciliation failed', async t => {
    const client = createKubeClient(access, { random: Math.random })
    const published: number[] = []
    let failures = 2
    const typeUrls = [rateLimitTypeUrl]
    const feed = new Feed({ typeUrls, ids: randomUUID, clock: systemClock, log: silentLog })
    feed.publish = ({ resources }) => {
      failures -= 1
      if (failures >= 0) throw new Error('the feed cannot carry it')
      published.push(resources.size)
    }
    const kind = openClusterController(rateLimitConfigs(), {
      ...{
        client,
        watchNamespaces: [],
        feed,
        infrastructure: { observe: () => [], obstacle: () => undefined },
        log: silentLog,
      },
      whySwitchedOff: () => undefined,
      backends: { get: () => undefined },
      mayWrite: () => false,
      metrics: { statusWritten() {}, propagated() {}, reconciled() {} },
      installation: { name: 'tollway', namespace, revision: '', owner: noOwner },
      events: { record() {} },
    })
    t.after(async () => {
      await kind.stop()
      client.close()
    })
    await startKinds([kind], silentLog)
    assert.deepEqual(published, [])
    await waitFor('the resources to be published', () => published.length > 0)
  })

  it('reports what it waits for while the API server rejects its requests', async t => {
    const reject = async (rule: { apiGroups: string[]; apiVersions: string[]; resources: string[] }) => {
      const metadata = { name: 'reject' }
      const rules = [{ ...rule, operations: ['CREATE', 'UPDATE'] }]
      await make(`${admission}/validatingadmissionpolicies`, {
        metadata,
        spec: {
          matchConstraints: { resourceRules: rules },
          validations: [{ expression: 'false', message: 'not in this hour' }],
        },
      })
      const binding = { policyName: 'reject', validationActions: ['Deny'] }
      await make(`${admission}/validatingadmissionpolicybindings`, { metadata, spec: binding })
    }
    const allow = async () => {
      for (const plural of ['validatingadmissionpolicybindings', 'validatingadmissionpolicies'])
        await api.call('DELETE', `${admission}/${plural}/reject`)
    }
    t.after(allow)
    await reject({ apiGroups: ['apps'], apiVersions: ['v1'], resources: ['deployments'] })
    await make(limits, checkout('awaited'))
    const enforced = async () =>
      conditionOf(await api.call('GET', `${limits}/awaited`), 'Enforced')?.message ?? ''
    const isRejected = async (replicas: number) => {
      const metadata = { name: 'tollway-ratelimit' }
      const patch = { apiVersion: 'apps/v1', kind: 'Deployment', metadata, spec: { replicas } }
      const path = `${deployments}/tollway-ratelimit?fieldManager=probe&force=true&dryRun=All`
      return JSON.stringify((await api.call('PATCH', path, patch)).body).includes('not in this hour')
    }
    await waitFor('the policy to apply', () => isRejected(5))
    const { operator, operatorPort } = await startOperator({ backend: { type: 'memory' }, grpcPort: 9081 })
    t.after(() => operator.stop())
    const problems = async () => {
      const answer = await fetch(`http://127.0.0.1:${operatorPort}/status`)
      const { problems } = (await answer.json()) as StatusReport
      return problems.map(({ origin, message }) => `${origin}: ${message}`).join('\n')
    }
    const awaited =
      /^No process accepts calls\. The change of the processes is retried after: .*not in this hour/
    await waitFor('the condition', async () => awaited.test(await enforced()))
    assert.match(await problems(), /^ratelimit: .*not in this hour/m)
    await allow()
    await waitFor('the end', async () => (await enforced()) === 'No process accepts calls', 60_000)

    const statuses = ['ratelimitconfigs/status']
    await reject({ apiGroups: ['tollway.dev'], apiVersions: ['*'], resources: statuses })
    let edits = 0
    await waitFor('the report', async () => {
      await make(limits, checkout(`awaited-${++edits}`))
      return (await problems()).includes('RateLimitConfig: write a status: ')
    })
    assert.match(await problems(), /not in this hour.*; it is repeated$/m)
    const metrics = await (await fetch(`http://127.0.0.1:${operatorPort}/metrics`)).text()
    assert.match(metrics, /^tollway_kind_failing\{kind="RateLimitConfig"\} 1$/m)
    await allow()
    await waitFor('the end of the report', async () => !(await problems()).includes('write a status'), 30_000)
  })

  it('replaces the pods when the content of their Secret changes, not when it is deleted', async () => {
    const secrets = `/api/v1/namespaces/${namespace}/secrets`
    const withRedis = { backend: { type: 'redis', urlSecret: { name: 'redis' } } }
    type Template = { spec: { template: { metadata: { annotations?: Record<string, string> } } } }
    const digest = async () => {
      const { body } = await api.call('GET', `${deployments}/tollway-ratelimit`)
      return (body as Template).spec.template.metadata.annotations?.['tollway.dev/secrets']
    }
    const digestAfterStart = async (expected: (found: string | undefined) => boolean) => {
      const { operator } = await startOperator(withRedis)
      await waitFor('the digest', async () => expected(await digest()))
      await operator.stop()
      return digest()
    }
    await make(secrets, { metadata: { name: 'redis' }, stringData: { url: 'redis://first:6379' } })
    const first = await digestAfterStart(found => found !== undefined)
    const changed = { metadata: { name: 'redis' }, stringData: { url: 'redis://second:6379' } }
    await api.call('PUT', `${secrets}/redis`, changed)
    const second = await digestAfterStart(found => found !== first)
    assert.match(second ?? '', /^[0-9a-f]{16}$/)

    await api.call('DELETE', `${secrets}/redis`)
    const isApplied = async () => {
      const { body } = await api.call('GET', `${deployments}/tollway-ratelimit`)
      return (body as { spec: { replicas: number } }).spec.replicas === 2
    }
    const { operator } = await startOperator({ ...withRedis, replicas: 2 })
    await waitFor('the workload to be applied', isApplied)
    await operator.stop()
    assert.equal(await digest(), second)
  })

  it('reports another program that undoes its repairs, in the status, a metric and an Event', async t => {
    const { operator, operatorPort } = await startOperator()
    t.after(() => operator.stop())
    const path = `${deployments}/tollway-ratelimit`
    const replicas = async () => {
      const { body } = await api.call('GET', path)
      return (body as { spec?: { replicas?: number } }).spec?.replicas
    }
    const theirs = { apiVersion: 'apps/v1', kind: 'Deployment', metadata: { name: 'tollway-ratelimit' } }
    for (let change = 1; change <= 3; change++) {
      await waitFor('the operator to repair it', async () => (await replicas()) === 1)
      const answer = await api.call('PATCH', `${path}?fieldManager=gitops&force=true`, {
        ...theirs,
        spec: { replicas: 7 },
      })
      assert.equal(answer.status, 200)
    }
    const problems = async () => {
      const answer = await fetch(`http://127.0.0.1:${operatorPort}/status`)
      return ((await answer.json()) as { problems: { origin: string; message: string }[] }).problems
    }
    const namesManager = ({ message }: { message: string }) =>
      message.includes('the manager "gitops" changes it')
    await waitFor('the status', async () => (await problems()).some(namesManager))
    const metrics = await (await fetch(`http://127.0.0.1:${operatorPort}/metrics`)).text()
    assert.match(metrics, /^tollway_contested_objects 1$/m)
    await waitFor('the Event', async () => {
      const { body } = await api.call('GET', `/apis/events.k8s.io/v1/namespaces/${namespace}/events`)
      const { items } = body as { items: { reason: string; note: string; regarding: { kind: string } }[] }
      return items.some(
        ({ reason, note, regarding }) =>
          reason === 'Contested' && regarding.kind === 'Deployment' && namesManager({ message: note }),
      )
    })
  })

  it("moves an earlier version's data of its Deployment to the ConfigMap", async t => {
    const paths = [
      `${deployments}/tollway-ratelimit`,
      `/api/v1/namespaces/${namespace}/services/tollway-ratelimit`,
      ...['ca', 'feed-server', 'feed-client'].map(
        name => `/api/v1/namespaces/${namespace}/secrets/tollway-${name}`,
      ),
      `/apis/coordination.k8s.io/v1/namespaces/${namespace}/leases/tollway-operator`,
    ]
    type Owned = { metadata: { uid: string; ownerReferences?: { kind: string; uid: string }[] } }
    const get = async (path: string) => (await api.call('GET', path)).body as Owned
    const { metadata: owner } = await get(`${configMaps}/tollway-operator`)
    const isOwned = async (path: string) => {
      const { ownerReferences = [] } = (await get(path)).metadata
      return ownerReferences.some(({ kind, uid }) => kind === 'ConfigMap' && uid === owner.uid)
    }
    const untilAllAreOwned = () =>
      waitFor('every object to have the owner', async () =>
        (await Promise.all(paths.map(isOwned))).every(Boolean),
      )
    const first = await startOperator()
    await untilAllAreOwned()
    await first.operator.stop()
    const earlier = {
      apiVersion: 'apps/v1',
      kind: 'Deployment',
      name: 'tollway-operator',
      uid: randomUUID(),
    }
    for (const path of paths) {
      const object = await get(path)
      const metadata = { ...object.metadata, ownerReferences: [earlier] }
      const answer = await api.call('PUT', path, { ...object, metadata })
      assert.equal(answer.status, 200, JSON.stringify(answer.body))
    }
    assert.deepEqual(
      await Promise.all(paths.map(isOwned)),
      paths.map(() => false),
    )

    const second = await startOperator()
    t.after(() => second.operator.stop())
    await untilAllAreOwned()
  })
})

const noOwner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'tollway-operator', uid: 'none' }

function checkout(name: string, rateLimit: object = { unit: 'minute', requestsPerUnit: 3 }) {
  return {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name },
    spec: {
      domain: name,
      descriptors: [{ key: 'user', rateLimit }],
    },
  }
}

function kiosk(name: string, secret: string) {
  return {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'AnimationStreamRoute',
    metadata: { name },
    spec: { match: { streamIdPrefix: name }, tokenSecretRef: { name: secret } },
  }
}

function notifying(name: string, secret: string) {
  const webhook = { url: 'https://example.org/streams', secretRef: { name: secret } }
  const spec = { match: { streamIdPrefix: name }, notify: { webhook } }
  return { ...kiosk(name, secret), spec }
}

function readyOf(answer: ApiAnswer): string | undefined {
  return conditionOf(answer, 'Ready')?.status
}

function conditionOf({ body }: ApiAnswer, wanted: string) {
  type Conditions = readonly { type: string; status: string; reason: string; message: string }[]
  const { status } = body as { status?: { conditions?: Conditions } }
  return status?.conditions?.find(({ type }) => type === wanted)
}
