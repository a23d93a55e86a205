import assert from 'node:assert/strict'
import type { TestContext } from 'node:test'
import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { type ApiProxy, startApiProxy } from '../../../../../test/support/api-proxy.ts'
import { type KubeApiServer, startKubeApiServer } from '../../../../../test/support/kube-api-server.ts'
import { waitFor } from '../../../../../test/support/wait-for.ts'
import type { ReflectorTiming } from '../../../../controller/reflector.ts'
import type { Workload } from '../../../../model.ts'
import { makePodShape } from '../../../../workloads/registry.ts'
import { collectionPath, createKubeClient, type KubeClient, objectPath } from '../../api/client.ts'
import type { KubeObject, ObjectKey } from '../../api/kube-object.ts'
import { accessThrough, addressOf, makeOperatorAccount } from '../../testing/service-account.ts'
import { kindNames, kinds, podResource, type WorkloadObjectKind } from '../kinds.ts'
import { KubernetesInfrastructure } from '../kubernetes.ts'
import { type DeploymentController, startDeploymentController } from './deployment-controller.ts'

/** An API server behind a proxy that can inject faults, for the tests of one file. */
export interface ClusterUnderTest {
  readonly api: KubeApiServer
  readonly proxy: ApiProxy
  /** Creates a namespace with an account for the operator. */
  openNamespace(t: TestContext): Promise<NamespaceUnderTest>
  stop(): Promise<void>
}

export interface NamespaceUnderTest {
  readonly namespace: string
  /** A client with the operator's account, which calls through the proxy. */
  readonly client: KubeClient
  /** All problems that the infrastructures of this namespace reported. */
  readonly problems: string[]
  infrastructure(
    options?: Partial<ConstructorParameters<typeof KubernetesInfrastructure>[0]>,
  ): KubernetesInfrastructure
  /** Starts a replacement for the controllers of the cluster. */
  startController(): DeploymentController
  /** Reads an object as an administrator. */
  get(kind: WorkloadObjectKind, name?: string): Promise<KubeObject | undefined>
  /** Resolves with the names of the objects of all kinds: `Deployment/tollway-ratelimit`. */
  names(): Promise<readonly string[]>
  /** Applies a change as another field owner. */
  edit(kind: WorkloadObjectKind, change: Readonly<Record<string, unknown>>, name?: string): Promise<void>
  delete(kind: WorkloadObjectKind, name?: string): Promise<void>
}

/** The times of production, shortened. */
const timing: Partial<ReflectorTiming> = {
  shortestWatchSeconds: 2,
  longestWatchSeconds: 3,
  watchGraceMs: 500,
  watchSpacingMs: 50,
  retryInitialMs: 20,
  retryMaxMs: 400,
  relistSpreadMs: 150,
}

export const mainName = 'tollway-ratelimit'
export const owner = {
  apiVersion: 'apps/v1',
  kind: 'Deployment',
  name: 'tollway-operator',
  uid: '00000000-0000-4000-8000-000000000001',
}

/** Returns a workload that has objects of all kinds but the autoscaler. */
export const rateLimit = (more: Partial<Workload> = {}): Workload => ({
  name: 'ratelimit',
  service: 'ratelimit',
  replicas: 2,
  env: { LOG_LEVEL: 'info' },
  ports: [
    { name: 'grpc', port: 8081, reach: 'each' },
    { name: 'http', port: 8080 },
  ],
  probes: { ready: { port: 'http', path: '/healthcheck' }, alive: { port: 'http', path: '/livez' } },
  secretFiles: [{ name: 'feed-tls', secretName: 'tollway-feed-client', folder: '/etc/tollway/feed' }],
  stopGraceMs: 1_000,
  ...more,
})

export const autoscaling = {
  minReplicas: 2,
  maxReplicas: 9,
  targetCpuPercent: 70,
  metrics: [],
  behavior: {},
} as const

export function podShape(pods: Readonly<Record<string, unknown>> = {}) {
  const judged = validateClusterConfig({ rateLimit: { backend: { urlSecret: { name: 'redis' } }, pods } })
  if ('problems' in judged) throw new Error(JSON.stringify(judged.problems))
  return makePodShape(judged.value, 'ratelimit')
}

export async function startCluster(seed: number): Promise<ClusterUnderTest> {
  const api = await startKubeApiServer()
  const proxy = await startApiProxy({ target: await addressOf(api), seed })
  let namespaces = 0
  return {
    api,
    proxy,
    openNamespace: t => openNamespace(t, api, proxy, `system-${++namespaces}`),
    async stop() {
      await proxy.stop()
      await api.stop()
    },
  }
}

async function openNamespace(
  t: TestContext,
  api: KubeApiServer,
  proxy: ApiProxy,
  namespace: string,
): Promise<NamespaceUnderTest> {
  proxy.setFaults({})
  const token = await makeOperatorAccount(api, namespace)
  const client = createKubeClient(accessThrough(proxy.url, { namespace, token }), {
    random: Math.random,
    limits: { attemptTimeoutMs: 2_000, outageSpacingMs: 5 },
  })
  t.after(() => client.close())
  // The API server applies new roles after a delay.
  await waitFor('the roles to hold', async () => {
    await client.list(kinds.HorizontalPodAutoscaler, { namespace, limit: 1 })
    return true
  })
  const problems: string[] = []
  const keyOf = (name: string): ObjectKey => ({ namespace, name })
  const call = async (method: string, path: string, body?: unknown) => {
    const answer = await api.call(method, path, body)
    const { status } = answer
    assert.ok(status < 300 || status === 404, `${method} ${path}: ${JSON.stringify(answer.body)}`)
    return status === 404 ? undefined : (answer.body as KubeObject)
  }
  const listNames = async (kind: WorkloadObjectKind) => {
    const list = await call('GET', collectionPath(kinds[kind], namespace))
    const items = (list?.['items'] ?? []) as readonly KubeObject[]
    return items.map(({ metadata }) => `${kind}/${metadata.name}`)
  }
  return {
    namespace,
    client,
    problems,
    infrastructure(options = {}) {
      const made = new KubernetesInfrastructure({
        client,
        installation: { name: 'tollway', namespace, owner, revision: '' },
        shapeFor: () => podShape(),
        mayWrite: () => true,
        onProblem: message => problems.push(message),
        random: Math.random,
        timing: { reflector: timing },
        ...options,
      })
      t.after(() => made.close())
      return made
    },
    startController() {
      const controller = startDeploymentController(api, namespace)
      t.after(() => controller.stop())
      return controller
    },
    get: (kind, name = mainName) => call('GET', objectPath(kinds[kind], keyOf(name))),
    async names() {
      const all = await Promise.all(kindNames.map(listNames))
      return all.flat().filter(name => name !== 'ServiceAccount/tollway')
    },
    async edit(kind, change, name = mainName) {
      const { group, version } = kinds[kind]
      const { metadata, ...rest } = change
      const object = {
        apiVersion: group === '' ? version : `${group}/${version}`,
        kind,
        metadata: { name, namespace, ...(metadata as object) },
        ...rest,
      }
      await call('PATCH', `${objectPath(kinds[kind], keyOf(name))}?fieldManager=somebody&force=true`, object)
    },
    async delete(kind, name = mainName) {
      await call('DELETE', objectPath(kinds[kind], keyOf(name)), {})
    },
  }
}

export const podsPath = (namespace: string) => collectionPath(podResource, namespace)
