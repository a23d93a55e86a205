import assert from 'node:assert/strict'
import type { RateLimitResponse } from '@tollway/proto/envoy/service/ratelimit/v3/rls'
import type { KubeApiServer } from '../support/kube-api-server.ts'
import type { RateLimitProcess } from '../support/rate-limit-process.ts'
import type { Cleanup } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  type BulkCluster,
  bulkNamespace,
  limitsIn,
  replaceDefinition,
  startBulkCluster,
  steadyNamespace,
} from './bulk-cluster.ts'
import {
  type HealthFigures,
  type LoadFigures,
  loadService,
  quantile,
  startControlPage,
  watchOperators,
} from './probes.ts'

export interface BulkOptions {
  /** The number of resources that change at once. */
  readonly count: number
  readonly operators: number
  readonly services: number
  /** The time for which the idle cluster is watched; 0 to skip this. */
  readonly idleSeconds: number
  readonly say: (text: string) => void
}

export interface BulkStep extends HealthFigures {
  readonly name: string
  /** The time of the change itself. */
  readonly changeSeconds: number
  /** The time from the last change until all services enforce it. */
  readonly enforcedSeconds: number
  /** The time from the last change until all statuses say so. */
  readonly writtenSeconds: number
  readonly loads: readonly LoadFigures[]
}

export interface BulkRun {
  readonly steps: readonly BulkStep[]
  /** The size of the API server's answers while nothing happened, by verb and resource. */
  readonly idleBytesPerMinute: Readonly<Record<string, number>>
}

const deadlineMs = 120_000
const parallelCalls = 4

/** Makes every bulk change, one after the other, while the services take calls. */
export async function playBulkChanges(t: Cleanup, options: BulkOptions): Promise<BulkRun> {
  const { count, say } = options
  const cluster = await startBulkCluster(t, options)
  const { api } = cluster
  await cluster.make(limitsIn(steadyNamespace), limitOf('steady', 1_000_000))
  await waitUntilEnforced(cluster, 'steady', 1_000_000)
  const controlPort = await startControlPage(t)
  const names = Array.from({ length: count }, (_, index) => `limits-${index}`)
  const steps: BulkStep[] = []
  const play = async (name: string, change: Change) => {
    const step = await playStep(t, cluster, controlPort, name, change)
    steps.push(step)
    say(describeStep(step))
  }

  await play('created', {
    make: () => inParallel(names, name => cluster.make(limitsIn(bulkNamespace), limitOf(name, 10))),
    expected: { names, requestsPerUnit: 10 },
  })
  await play('patched', {
    make: () => inParallel(names, name => patch(api, name, 20)),
    expected: { names, requestsPerUnit: 20 },
  })
  const idleBytesPerMinute = options.idleSeconds === 0 ? {} : await watchIdle(api, options.idleSeconds)
  await play('deleted with their definition, and created again', {
    make: async () => {
      await replaceDefinition(cluster)
      await cluster.make(limitsIn(steadyNamespace), limitOf('steady', 1_000_000))
      await inParallel(names, name => cluster.make(limitsIn(bulkNamespace), limitOf(name, 40)))
    },
    expected: { names, requestsPerUnit: 40 },
    losesLimits: true,
  })
  await play('deleted with their namespace', {
    make: async () => assert.equal((await api.call('DELETE', limitsIn(bulkNamespace))).status, 200),
    expected: { names: [], gone: names },
  })
  return { steps, idleBytesPerMinute }
}

interface Change {
  make(): Promise<unknown>
  readonly expected: {
    readonly names: readonly string[]
    readonly gone?: readonly string[]
    readonly requestsPerUnit?: number
  }
  /** Whether no resource exists for a time, so that calls are answered without a limit. */
  readonly losesLimits?: boolean
}

async function playStep(
  t: Cleanup,
  cluster: BulkCluster,
  controlPort: number,
  name: string,
  change: Change,
): Promise<BulkStep> {
  const watch = await watchOperators(t, cluster.operators, controlPort)
  const judge = (answer: RateLimitResponse) =>
    change.losesLimits || answer.statuses[0]?.currentLimit ? undefined : 'an answer without a limit'
  const loads = cluster.services.map(service =>
    loadService(t, service, { perSecond: 50, domain: 'steady', timeoutMs: 5_000 }, judge),
  )
  const beginMs = performance.now()
  await change.make()
  const changedMs = performance.now()
  const { names, gone = [], requestsPerUnit = 0 } = change.expected
  const written = waitUntilWritten(cluster, names).then(() => performance.now())
  for (const some of samplesOf(names)) await waitUntilEnforced(cluster, some, requestsPerUnit)
  for (const some of samplesOf(gone)) await waitUntilEnforced(cluster, some, undefined)
  const enforcedMs = performance.now()
  const writtenMs = await written
  const figures = {
    ...(await watch.stop()),
    loads: await Promise.all(loads.map(load => load.stop())),
  }
  for (const { program } of cluster.operators) {
    assert.equal(program.process.exitCode ?? program.process.signalCode, null, program.output().slice(-4000))
  }
  return {
    name,
    changeSeconds: (changedMs - beginMs) / 1000,
    enforcedSeconds: (enforcedMs - changedMs) / 1000,
    writtenSeconds: (writtenMs - changedMs) / 1000,
    ...figures,
  }
}

function limitOf(name: string, requestsPerUnit: number) {
  return {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name },
    spec: {
      domain: name,
      descriptors: [
        { key: 'user', rateLimit: { unit: 'minute', requestsPerUnit } },
        { key: 'path', value: '/pay', rateLimit: { unit: 'hour', requestsPerUnit: 100 } },
      ],
    },
  }
}

async function patch(api: KubeApiServer, name: string, requestsPerUnit: number): Promise<void> {
  const path = `${limitsIn(bulkNamespace)}/${name}?fieldManager=bulk&force=true`
  const answer = await api.call('PATCH', path, limitOf(name, requestsPerUnit))
  assert.equal(answer.status, 200, JSON.stringify(answer.body))
}

async function inParallel(names: readonly string[], work: (name: string) => Promise<unknown>): Promise<void> {
  const rest = names[Symbol.iterator]()
  const run = async () => {
    for (const name of rest) await work(name)
  }
  await Promise.all(Array.from({ length: parallelCalls }, run))
}

/** Returns the first name, some between, and the last one. */
function samplesOf(names: readonly string[]): readonly string[] {
  const steps = 20
  const picked = Array.from({ length: steps + 1 }, (_, index) =>
    names.at(Math.round(((names.length - 1) * index) / steps)),
  )
  return [...new Set(picked.flatMap(name => name ?? []))]
}

/** @param requestsPerUnit the limit that every service must apply; undefined for none. */
async function waitUntilEnforced(
  { services }: BulkCluster,
  domain: string,
  requestsPerUnit: number | undefined,
): Promise<void> {
  const isEnforced = async (service: RateLimitProcess) => (await limitAt(service, domain)) === requestsPerUnit
  const what = `the limit ${requestsPerUnit} of ${domain} to be enforced`
  await waitFor(what, async () => (await Promise.all(services.map(isEnforced))).every(Boolean), deadlineMs)
}

async function limitAt({ httpPort }: RateLimitProcess, domain: string): Promise<number | undefined> {
  const descriptors = [{ entries: [{ key: 'user', value: 'probe' }], hitsAddend: 0 }]
  const body = JSON.stringify({ domain, descriptors })
  const response = await fetch(`http://127.0.0.1:${httpPort}/json`, { method: 'POST', body })
  type Answer = { statuses?: { currentLimit?: { requestsPerUnit?: number } }[] }
  return ((await response.json()) as Answer).statuses?.[0]?.currentLimit?.requestsPerUnit
}

interface ListedLimit {
  readonly metadata: { readonly name: string; readonly generation: number }
  readonly status?: {
    readonly observedGeneration?: number
    readonly enforced?: string
    readonly conditions?: readonly { readonly type: string; readonly status: string }[]
  }
}

/** Resolves when exactly these resources exist in the namespace, each with a status that says Enforced. */
async function waitUntilWritten({ api, services }: BulkCluster, names: readonly string[]): Promise<void> {
  const enforced = `${services.length}/${services.length}`
  const isWritten = ({ metadata, status }: ListedLimit) =>
    status?.observedGeneration === metadata.generation &&
    status.enforced === enforced &&
    status.conditions?.some(({ type, status }) => type === 'Ready' && status === 'True')
  let lookMs = 0
  await waitFor(
    'every status to be written',
    async () => {
      // A list of all resources is expensive, so it is requested once a second.
      if (performance.now() - lookMs < 1_000) return false
      lookMs = performance.now()
      let ready = 0
      let more = ''
      do {
        const { body } = await api.call('GET', `${limitsIn(bulkNamespace)}?limit=500&continue=${more}`)
        const page = body as { items: ListedLimit[]; metadata: { continue?: string } }
        if (!page.items.every(isWritten)) return false
        ready += page.items.length
        more = encodeURIComponent(page.metadata.continue ?? '')
      } while (more !== '')
      return ready === names.length
    },
    deadlineMs,
  )
}

/** The API server counts its answers; only the operators send requests meanwhile. */
async function watchIdle(api: KubeApiServer, seconds: number): Promise<Readonly<Record<string, number>>> {
  const before = await answeredBytes(api)
  await new Promise(resolve => setTimeout(resolve, seconds * 1000))
  const after = await answeredBytes(api)
  const perMinute = [...after].map(([key, bytes]): [string, number] => [
    key,
    Math.round(((bytes - (before.get(key) ?? 0)) * 60) / seconds),
  ])
  return Object.fromEntries(perMinute.filter(([, bytes]) => bytes > 0))
}

async function answeredBytes(api: KubeApiServer): Promise<ReadonlyMap<string, number>> {
  const { body } = await api.call('GET', '/metrics')
  const lines = `${body}`.matchAll(/^apiserver_(response_sizes|watch_events_sizes)_sum\{(.*)\} (\S+)$/gm)
  const sums = new Map<string, number>()
  for (const [, family, labels = '', bytes] of lines) {
    const { resource = '', verb = 'WATCH' } = Object.fromEntries(
      [...labels.matchAll(/(\w+)="([^"]*)"/g)].map(([, name, value]) => [name, value]),
    )
    if (resource === '') continue
    const key = `${family === 'response_sizes' ? verb : 'WATCH'} ${resource}`
    sums.set(key, (sums.get(key) ?? 0) + Number(bytes))
  }
  return sums
}

export function describeStep(step: BulkStep): string {
  const show = (sorted: readonly number[]) =>
    `p50 ${quantile(sorted, 0.5).toFixed(1)} p99 ${quantile(sorted, 0.99).toFixed(0)} max ${sorted.at(-1)?.toFixed(0)} ms`
  const health = step.operators.map(
    ({ healthMs, maxRssMiB, lagMs }) =>
      `/healthz ${show(healthMs)}, event loop p99 ${lagMs.p99.toFixed(0)} max ${lagMs.max.toFixed(0)} ms late, ` +
      `RSS ${maxRssMiB.toFixed(0)} MiB`,
  )
  const calls = step.loads.reduce((sum, load) => sum + load.calls, 0)
  const failures = step.loads.flatMap(load => load.failures)
  const latencies = step.loads.flatMap(load => load.latenciesMs).sort((a, b) => a - b)
  return [
    `${step.name}: change ${step.changeSeconds.toFixed(1)} s, enforced +${step.enforcedSeconds.toFixed(1)} s, ` +
      `written +${step.writtenSeconds.toFixed(1)} s`,
    ...health.map(text => `  operator: ${text}`),
    `  control: ${show(step.controlMs)}`,
    `  ${calls} calls, ${failures.length} failed${failures[0] ? ` (${failures[0]})` : ''}, ` +
      `p99 ${latencies[Math.floor(latencies.length * 0.99)]?.toFixed(1)} ms`,
  ].join('\n')
}
