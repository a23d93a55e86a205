import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { overlapping, startLoad } from '../e2e/load.ts'
import { callRateLimit } from '../support/rate-limit-process.ts'
import type { Cleanup } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import {
  type BulkCluster,
  bulkNamespace,
  limitsIn,
  startBulkCluster,
  steadyNamespace,
} from './bulk-cluster.ts'
import { type ControlledEnvoy, startControlledEnvoy } from './controlled-envoy.ts'
import { type LoadFigures, loadService, quantile } from './probes.ts'

interface EditOptions {
  /** The number of rules of other resources. */
  readonly others: number
  /** The number of rules of one resource. */
  readonly rulesEach: number
  readonly edits: number
  readonly services: number
}

interface EditFigures {
  /** Milliseconds from the answer to an edit until each service enforces it, in the order of the edits. */
  readonly enforcedMs: readonly number[]
  /** The figures without edits; `edited` has those with edits. */
  readonly quiet: LoadFigures
  readonly edited: LoadFigures
  /** The calls through Envoy while edits were made. */
  readonly envoy: EnvoyFigures
}

interface EnvoyFigures {
  readonly calls: number
  /** The decisions that Envoy did not get in time, of the service and of the control. */
  readonly service: number
  readonly control: number
  /** The failed decisions of the service that overlap no late call to the control. */
  readonly beyond: number
}

const envoyDomain = 'checkout'
const callsPerSecond = 200
const envoyTimeoutMs = 50

/** Edits one rule of one resource repeatedly, beside many rules of others, while Envoy and others call. */
async function measureEdits(t: Cleanup, options: EditOptions): Promise<EditFigures> {
  const cluster = await startBulkCluster(t, { operators: 1, services: options.services })
  const [service] = cluster.services
  assert.ok(service)
  await writeOthers(cluster, options)
  await edit(cluster, 1_000_000)
  const limits = openLimits(t, cluster)
  await waitFor('the first edit', async () => (await limits()).every(limit => limit === 1_000_000), 120_000)
  const envoy = await startControlledEnvoy(t, service.grpcPort, envoyTimeoutMs)
  const load = () =>
    loadService(
      t,
      service,
      { perSecond: callsPerSecond, domain: envoyDomain, timeoutMs: 5_000 },
      () => undefined,
    )

  const before = load()
  const quietEnvoy = await loadEnvoy(envoy)
  await pause(10_000)
  await quietEnvoy.stop()
  const quiet = await before.stop()

  const during = load()
  const throughEnvoy = await loadEnvoy(envoy)
  const enforcedMs: number[] = []
  for (let count = 1; count <= options.edits; count++) {
    const limit = 1_000_000 + count
    await edit(cluster, limit)
    const beginMs = performance.now()
    while (!(await limits()).every(found => found === limit)) await pause(1)
    enforcedMs.push(performance.now() - beginMs)
    await pause(150)
  }
  const figures = await throughEnvoy.stop()
  return {
    enforcedMs,
    quiet,
    edited: await during.stop(),
    envoy: figures,
  }
}

async function writeOthers({ make }: BulkCluster, { others, rulesEach }: EditOptions): Promise<void> {
  for (let index = 0; index * rulesEach < others; index++) {
    const name = `others-${index}`
    const rateLimit = { unit: 'minute', requestsPerUnit: 100 }
    const descriptors = Array.from({ length: rulesEach }, (_, rule) => ({
      key: 'user',
      value: `u-${rule}`,
      rateLimit,
    }))
    await make(limitsIn(bulkNamespace), {
      apiVersion: 'tollway.dev/v1alpha1',
      kind: 'RateLimitConfig',
      metadata: { name },
      spec: { domain: name, descriptors },
    })
  }
}

async function edit({ api }: BulkCluster, requestsPerUnit: number): Promise<void> {
  const path = `${limitsIn(steadyNamespace)}/${envoyDomain}?fieldManager=edits&force=true`
  const answer = await api.call('PATCH', path, {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'RateLimitConfig',
    metadata: { name: envoyDomain },
    spec: {
      domain: envoyDomain,
      descriptors: [{ key: 'user', rateLimit: { unit: 'day', requestsPerUnit } }],
    },
  })
  assert.ok(answer.status < 300, JSON.stringify(answer.body))
}

/** Returns a function that resolves with the limit that each service applies. */
function openLimits(t: Cleanup, { services }: BulkCluster): () => Promise<readonly (number | undefined)[]> {
  const callers = services.map(({ grpcPort }) => callRateLimit(t, grpcPort))
  const descriptors = [{ entries: [{ key: 'user', value: 'probe' }] }]
  return () =>
    Promise.all(
      callers.map(async ({ shouldRateLimit }) => {
        const answer = await shouldRateLimit({ domain: envoyDomain, descriptors })
        return answer.statuses[0]?.currentLimit?.requestsPerUnit
      }),
    )
}

/** Sends requests through Envoy, to the service and to the control. */
async function loadEnvoy(envoy: ControlledEnvoy): Promise<{ stop(): Promise<EnvoyFigures> }> {
  const before = await envoy.failures()
  const load = startLoad(envoy.serviceUrl, { user: 'envoy', callsPerSecond, lateMs: envoyTimeoutMs })
  const control = startLoad(envoy.controlUrl, { user: 'envoy', callsPerSecond, lateMs: envoyTimeoutMs / 2 })
  return {
    async stop() {
      await Promise.all([load.stop(), control.stop()])
      const after = await envoy.failures()
      const service = after.service - before.service
      return {
        calls: [...load.codes.values()].reduce((sum, count) => sum + count, 0),
        service,
        control: after.control - before.control,
        beyond: Math.max(0, service - overlapping(load.late, control.late)),
      }
    },
  }
}

const { values } = parseArgs({
  options: {
    others: { type: 'string', default: '50000' },
    'rules-each': { type: 'string', default: '5000' },
    edits: { type: 'string', default: '60' },
    services: { type: 'string', default: '3' },
  },
})
const cleanups: (() => Promise<unknown> | unknown)[] = []
try {
  const figures = await measureEdits(
    { after: cleanup => cleanups.push(cleanup) },
    {
      others: Number(values.others),
      rulesEach: Number(values['rules-each']),
      edits: Number(values.edits),
      services: Number(values.services),
    },
  )
  const { enforcedMs, quiet, edited, envoy } = figures
  const show = (sorted: readonly number[]) =>
    [0.5, 0.9, 0.99].map(share => `p${share * 100} ${quantile(sorted, share).toFixed(1)} ms`).join(', ')
  console.log(`edits in turn, ms: ${enforcedMs.map(ms => ms.toFixed(0)).join(' ')}`)
  console.log(`edit to enforced by all: ${show(enforcedMs.toSorted((a, b) => a - b))}`)
  console.log(`decisions: quiet ${show(quiet.latenciesMs)}; with edits ${show(edited.latenciesMs)}`)
  console.log(
    `calls through Envoy with edits: ${envoy.calls}, failed ${envoy.service}, of the control ${envoy.control}, ` +
      `beyond the control ${envoy.beyond}`,
  )
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup()
}
