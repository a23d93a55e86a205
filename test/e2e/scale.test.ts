import assert from 'node:assert/strict'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { apiVersion } from '../../crds/resource-kind.ts'
import { accessFromEnvironment } from '../../operator/environments/kubernetes/api/access.ts'
import { createKubeClient, type KubeClient } from '../../operator/environments/kubernetes/api/client.ts'
import { customResource } from '../../operator/environments/kubernetes/api/custom-resources.ts'
import {
  readyCondition,
  type StoredResource,
} from '../../operator/environments/kubernetes/status/stored-resource.ts'
import { temporaryFolder } from '../support/temporary-folder.ts'
import { apply, eventually, kubectl, type Pod, pods } from './cluster.ts'
import { createFigures } from './figures.ts'
import { tollway } from './kubectl-plugin.ts'
import { ensureInstalled, system } from './release.ts'
import { unpackBundle } from './support-bundle.ts'

const rateLimitConfigs = customResource(rateLimitConfigKind)
const namespace = 'many'
const count = Number(process.env['E2E_RESOURCES'] ?? 1000)
const operators = 'app.kubernetes.io/name=tollway-operator'
const idleMs = 20_000
/** The requests a second of both operators. The holder of the Lease renews it every 3 s. */
const mostIdleRequests = 0.5
const place = temporaryFolder('scale')

const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

describe(`${count} resources in a cluster`, { skip, timeout: 600_000 }, () => {
  const figures = createFigures('scale')
  let client: KubeClient

  before(async () => {
    await ensureInstalled()
    await apply({ apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } })
    client = createKubeClient(await accessFromEnvironment(process.env), { random: Math.random })
  })
  after(async () => {
    client?.close()
    await kubectl('delete', 'namespace', namespace, '--wait=false')
    figures.write()
  })

  it('become ready soon after the operators start, and cost little without changes', async () => {
    await kubectl('-n', system, 'scale', 'deploy/tollway-operator', '--replicas=0')
    await eventually('no operator', async () => (await pods(system, operators)).length === 0)
    await applyAll(client, 10)
    const beginMs = performance.now()
    await kubectl('-n', system, 'scale', 'deploy/tollway-operator', '--replicas=2')
    await eventually('all to be ready', async () => (await readyCount(client)) === count, 180_000)
    const seconds = ((performance.now() - beginMs) / 1000).toFixed(1)
    figures.note(`${count} resources: start → all Ready`, '< 60 s', `${seconds} s`)

    const running = await pods(system, operators)
    assert.equal(running.length, 2)
    // The last statuses can still be written after all resources are ready.
    let rates = await requestRates(running)
    const all = () => rates.reduce((sum, rate) => sum + rate, 0)
    for (let more = 0; more < 3 && all() >= mostIdleRequests; more++) rates = await requestRates(running)
    const shown = rates.map(rate => rate.toFixed(2)).join(' and ')
    figures.note('idle: requests to the API server', `< ${mostIdleRequests}/s together`, `${shown}/s`)
    const memory = await Promise.all(
      running.map(pod => metric(pod, 'tollway_operator_process_resident_memory_bytes')),
    )
    const mebibytes = memory.map(bytes => Math.round(bytes / 2 ** 20))
    figures.note('RSS of an operator', '< 256 MiB', `${mebibytes.join(' and ')} MiB`)
    assert.ok(all() < mostIdleRequests, shown)
  })

  it('are changed together while kubectl tollway inspects them', async () => {
    const bundle = join(place, 'bundle.tar.gz')
    const collecting = tollway(['collect', '--output-file', bundle])
    const beginMs = performance.now()
    await applyAll(client, 20)
    await eventually('all to be ready', async () => (await readyCount(client)) === count, 180_000)
    const seconds = ((performance.now() - beginMs) / 1000).toFixed(1)
    figures.note(`a change of ${count} resources: apply → all Ready`, '< 60 s', `${seconds} s`)
    const collected = await collecting
    assert.equal(collected.code, 0, collected.error)
    const { files, manifest } = unpackBundle(bundle)
    assert.ok(files.has('resources/ratelimitconfigs.json'))
    assert.ok(manifest.files.every(({ bytes }) => bytes <= manifest.limits.maxFileBytes))

    const file = join(place, 'limits.json')
    writeFileSync(file, JSON.stringify({ apiVersion: 'v1', kind: 'List', items: resources(20) }))
    const inNamespace = ['-n', namespace]
    const same = await tollway(['diff', ...inNamespace, '-f', file])
    assert.deepEqual([same.code, same.error], [0, ''], same.out.slice(0, 1000))
    const status = await tollway(['status', ...inNamespace])
    assert.equal(status.code, 0, status.error)
    const enforced = /^RateLimitConfig +many\/limits-\d+ +limits-\d+ +2 +True +True +3\/3 +True$/gm
    assert.equal(status.out.match(enforced)?.length, count, status.out.slice(0, 1000))
  })
})

const resources = (perMinute: number) =>
  Array.from({ length: count }, (_, index) => limits(`limits-${index}`, perMinute))

async function applyAll(client: KubeClient, perMinute: number): Promise<void> {
  const all = resources(perMinute)
  for (let begin = 0; begin < count; begin += 20) {
    await Promise.all(all.slice(begin, begin + 20).map(resource => client.apply(rateLimitConfigs, resource)))
  }
}

function limits(name: string, perMinute: number) {
  return {
    apiVersion,
    kind: 'RateLimitConfig',
    metadata: { name, namespace },
    spec: {
      domain: name,
      descriptors: [
        { key: 'user', rateLimit: { unit: 'minute', requestsPerUnit: perMinute } },
        { key: 'path', value: '/pay', rateLimit: { unit: 'hour', requestsPerUnit: 100 } },
      ],
    },
  }
}

async function readyCount(client: KubeClient): Promise<number> {
  let ready = 0
  let more: string | undefined
  do {
    const page = await client.list(rateLimitConfigs, { namespace, limit: 500, continue: more })
    ready += page.items.filter(item => isReady(item as StoredResource)).length
    more = page.continue
  } while (more !== undefined)
  await pause(500)
  return ready
}

function isReady({ metadata, status }: StoredResource): boolean {
  const ready = status && readyCondition(status)
  return ready?.status === 'True' && ready.observedGeneration === metadata.generation
}

async function metricsOf({ status }: Pod): Promise<string> {
  return (await fetch(`http://${status.podIP}:8000/metrics`)).text()
}

async function metric(pod: Pod, name: string): Promise<number> {
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(await metricsOf(pod))?.[1])
}

/** Resolves with the requests of each pod to the API server, per second, in the next 20 s. */
async function requestRates(running: readonly Pod[]): Promise<readonly number[]> {
  const before = await Promise.all(running.map(requestsOf))
  await pause(idleMs)
  const after = await Promise.all(running.map(requestsOf))
  return after.map((sum, index) => ((sum - (before[index] ?? 0)) * 1000) / idleMs)
}

async function requestsOf(pod: Pod): Promise<number> {
  const lines = (await metricsOf(pod)).matchAll(/^tollway_api_requests_total\{.*\} (\d+)$/gm)
  return [...lines].reduce((sum, [, value]) => sum + Number(value), 0)
}
