import assert from 'node:assert/strict'
import { setTimeout as pause } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { type Envoy, startEnvoy } from '../support/envoy.ts'
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
import { type LoadFigures, loadService, quantile } from './probes.ts'

interface EditOptions {
  /** Rules of other resources. */
  readonly others: number
  /** Of one resource. */
  readonly rulesEach: number
  readonly edits: number
  readonly services: number
}

interface EditFigures {
  /** From the answer to an edit until each service enforces it, in milliseconds, in rising order. */
  readonly enforcedMs: readonly number[]
  /** While nothing is edited, and while edits are. */
  readonly quiet: LoadFigures
  readonly edited: LoadFigures
  /** Calls that Envoy gave up after 50 ms, or that failed, while edits were made, of all. */
  readonly envoyFailures: number
  readonly envoyCalls: number
}

const envoyDomain = 'checkout'
const callsPerSecond = 200

/** Edits one rule of one resource repeatedly, beside many rules of others, while Envoy and others call. */
async function measureEdits(t: Cleanup, options: EditOptions): Promise<EditFigures> {
  const cluster = await startBulkCluster(t, { operators: 1, services: options.services })
  const [service] = cluster.services
  assert.ok(service)
  await writeOthers(cluster, options)
  await edit(cluster, 1_000_000)
  const limits = openLimits(t, cluster)
  await waitFor('the first edit', async () => (await limits()).every(limit => limit === 1_000_000), 120_000)
  const change = (config: string) => config.replace('timeout: 0.020s', 'timeout: 0.050s')
  const envoy = await startEnvoy(t, service.grpcPort, { concurrency: 1, change })
  const load = () =>
    loadService(
      t,
      service,
      { perSecond: callsPerSecond, domain: envoyDomain, timeoutMs: 5_000 },
      () => undefined,
    )

  const before = load()
  const quietEnvoy = loadEnvoy(envoy)
  await pause(10_000)
  await quietEnvoy.stop()
  const quiet = await before.stop()

  const during = load()
  const throughEnvoy = loadEnvoy(envoy)
  const enforcedMs: number[] = []
  for (let count = 1; count <= options.edits; count++) {
    const limit = 1_000_000 + count
    await edit(cluster, limit)
    const beginMs = performance.now()
    while (!(await limits()).every(found => found === limit)) await pause(1)
    enforcedMs.push(performance.now() - beginMs)
    await pause(150)
  }
  const { calls, failures } = await throughEnvoy.stop()
  return {
    enforcedMs: enforcedMs.sort((a, b) => a - b),
    quiet,
    edited: await during.stop(),
    envoyFailures: failures,
    envoyCalls: calls,
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

/** Answers the limit that each service applies. */
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

/** Sends requests through Envoy, which asks the service for each. */
function loadEnvoy({ ingressPort, adminPort }: Envoy): {
  stop(): Promise<{ calls: number; failures: number }>
} {
  const running = new Set<Promise<unknown>>()
  const begin = failuresOf(adminPort)
  let calls = 0
  const timer = setInterval(() => {
    calls += 1
    const headers = { 'x-user': `user-${calls % 100}` }
    const call = fetch(`http://127.0.0.1:${ingressPort}/`, { headers })
      .then(response => response.arrayBuffer())
      .finally(() => running.delete(call))
    running.add(call)
  }, 1000 / callsPerSecond)
  return {
    async stop() {
      clearInterval(timer)
      await Promise.all(running)
      return { calls, failures: (await failuresOf(adminPort)) - (await begin) }
    },
  }
}

/** Envoy counts a call without an answer in time, too, as an error of the rate limit filter. */
async function failuresOf(adminPort: number): Promise<number> {
  const text = await (await fetch(`http://127.0.0.1:${adminPort}/stats?filter=ratelimit.error`)).text()
  return [...text.matchAll(/: (\d+)$/gm)].reduce((sum, [, count]) => sum + Number(count), 0)
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
  const { enforcedMs, quiet, edited, envoyCalls, envoyFailures } = figures
  const show = (sorted: readonly number[]) =>
    [0.5, 0.9, 0.99].map(share => `p${share * 100} ${quantile(sorted, share).toFixed(1)} ms`).join(', ')
  console.log(`edit to enforced by all: ${show(enforcedMs)}`)
  console.log(`decisions: quiet ${show(quiet.latenciesMs)}; with edits ${show(edited.latenciesMs)}`)
  console.log(`calls through Envoy with edits: ${envoyCalls}, failed ${envoyFailures}`)
} finally {
  for (const cleanup of cleanups.reverse()) await cleanup()
}
