import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { nodeEnvironment } from '@tollway/chassis/node-environment.ts'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import {
  addressOf,
  makeOperatorAccount,
} from '../../operator/environments/kubernetes/testing/service-account.ts'
import { nodeOptions } from '../../operator/node-options.ts'
import { freePorts } from '../support/free-ports.ts'
import { type KubeApiServer, startKubeApiServer } from '../support/kube-api-server.ts'
import { writeKubeconfig } from '../support/kubeconfig.ts'
import { fedPodSettings, playPod, writeFeedCertificate } from '../support/played-pod.ts'
import { type Program, startProgram } from '../support/program.ts'
import { programs } from '../support/programs.ts'
import { type RateLimitProcess, startRateLimit } from '../support/rate-limit-process.ts'
import { serveKinds } from '../support/serve-kinds.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import type { Cleanup } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'

export const systemNamespace = 'tollway-system'
/** Its resources are changed at once. */
export const bulkNamespace = 'many'
/** Its resources stay as they are. */
export const steadyNamespace = 'steady'

/** A real API server, operators as separate processes, and rate limit processes that play the pods. */
export interface BulkCluster {
  readonly api: KubeApiServer
  readonly operators: readonly OperatorProcess[]
  readonly services: readonly RateLimitProcess[]
  /** Creates an object and resolves with it. */
  make(path: string, object: unknown): Promise<Record<string, unknown>>
}

export interface OperatorProcess {
  readonly program: Program
  /** The port of its pages. */
  readonly port: number
  readonly feedPort: number
}

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'

/** Node chooses it in a container with the chart's memory limit of 512 MiB. */
const heapOfChart = '--max-old-space-size=256'

export const limitsIn = (namespace: string) =>
  `/apis/tollway.dev/v1alpha1/namespaces/${namespace}/ratelimitconfigs`

export async function startBulkCluster(
  t: Cleanup,
  counts: { readonly operators: number; readonly services: number },
): Promise<BulkCluster> {
  const api = await startKubeApiServer()
  t.after(() => api.stop())
  const make: BulkCluster['make'] = async (path, object) => {
    const answer = await api.call('POST', path, object)
    assert.equal(answer.status, 201, JSON.stringify(answer.body))
    return answer.body as Record<string, unknown>
  }
  await serveKinds(api)
  const token = await makeOperatorAccount(api, systemNamespace)
  for (const name of [bulkNamespace, steadyNamespace])
    await make('/api/v1/namespaces', { metadata: { name } })
  await make(`/api/v1/namespaces/${systemNamespace}/configmaps`, { metadata: { name: 'tollway-operator' } })

  const folder = temporaryFolder('bulk')
  const { host, port } = await addressOf(api)
  const server = `https://${host}:${port}`
  const kubeconfig = writeKubeconfig(join(folder, 'kubeconfig'), server, token, systemNamespace)
  const operators: OperatorProcess[] = []
  for (let index = 0; index < counts.operators; index++) {
    operators.push(await startOperator(t, folder, kubeconfig, index))
  }
  const [first] = operators
  assert.ok(first)
  const services = await startServices(t, api, folder, first.feedPort, counts.services)
  return { api, operators, services, make }
}

async function startOperator(
  t: Cleanup,
  folder: string,
  kubeconfig: string,
  index: number,
): Promise<OperatorProcess> {
  const [port = 0, feedPort = 0] = await freePorts(2)
  const config = join(folder, `operator-${index}.yaml`)
  const rateLimit = { replicas: 1, backend: { type: 'memory' } }
  writeFileSync(config, JSON.stringify({ operatorPort: port, feedPort, rateLimit }))
  const { NODE_COMPILE_CACHE } = process.env
  const program = startProgram(
    process.execPath,
    [...nodeOptions, heapOfChart, programs.tollway, 'operator', '--config', config],
    {
      env: {
        ...(NODE_COMPILE_CACHE && { NODE_COMPILE_CACHE }),
        ...nodeEnvironment,
        KUBECONFIG: kubeconfig,
        POD_NAME: `operator-${index}`,
        POD_NAMESPACE: systemNamespace,
        POD_IP: '127.0.0.1',
        REVISION: 'bulk',
        HOME: folder,
      },
    },
  )
  t.after(async () => {
    await program.end('SIGTERM')
  })
  await program.said('"start operator"', 60_000)
  return { program, port, feedPort }
}

async function startServices(
  t: Cleanup,
  api: KubeApiServer,
  folder: string,
  feedPort: number,
  count: number,
): Promise<RateLimitProcess[]> {
  const place = { api, namespace: systemNamespace }
  const deployment = `/apis/apps/v1/namespaces/${systemNamespace}/deployments/tollway-ratelimit`
  await waitFor('the Deployment', async () => (await api.call('GET', deployment)).status === 200, 30_000)
  const files = join(folder, 'feed')
  await writeFeedCertificate(place, files)
  const names = Array.from({ length: count }, (_, index) => `played-${index}`)
  const pods = await Promise.all(names.map(name => playPod(place, name)))
  const settings = {
    ...fedPodSettings(systemNamespace, files),
    CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${feedPort}`,
  }
  const services = await Promise.all(
    pods.map(pod => startRateLimit(t, { ...settings, CONFIG_GRPC_XDS_NODE_METADATA: pod })),
  )
  const areHealthy = async () => (await Promise.all(services.map(service => service.health()))).every(isOk)
  await waitFor('the services to be healthy', areHealthy, 60_000)
  return services
}

const isOk = (status: number) => status === 200

/** Deletes the definition of the rate limits with all its resources, and creates it again. */
export async function replaceDefinition({ api }: BulkCluster): Promise<void> {
  const name = 'ratelimitconfigs.tollway.dev'
  await api.call('DELETE', `${definitions}/${name}`)
  const isGone = async () => (await api.call('GET', `${definitions}/${name}`)).status === 404
  await waitFor('the definition to be gone', isGone, 120_000)
  await serveKinds(api, [rateLimitConfigKind])
}
