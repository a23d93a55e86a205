import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { setTimeout as pause } from 'node:timers/promises'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { createKubeClient, type KubeClient } from '../../operator/environments/kubernetes/api/client.ts'
import { accessFromEnvironment } from '../../operator/environments/kubernetes/api/connection/access.ts'
import { apiVersion, customResource } from '../../operator/environments/kubernetes/api/custom-resources.ts'
import type { StoredResource } from '../../operator/environments/kubernetes/status/stored-resource.ts'
import { apply, eventually, kubectl, type Pod, pods } from './cluster.ts'
import { createFigures } from './figures.ts'
import { ensureInstalled, system } from './release.ts'

const rateLimitConfigs = customResource(rateLimitConfigKind)
const namespace = 'many'
const count = Number(process.env['E2E_RESOURCES'] ?? 1000)
const operators = 'app.kubernetes.io/name=tollway-operator'
const idleMs = 20_000

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
    const names = Array.from({ length: count }, (_, index) => `limits-${index}`)
    for (let begin = 0; begin < count; begin += 20) {
      await Promise.all(
        names.slice(begin, begin + 20).map(name => client.apply(rateLimitConfigs, limits(name))),
      )
    }
    const beginMs = performance.now()
    await kubectl('-n', system, 'scale', 'deploy/tollway-operator', '--replicas=2')
    await eventually('all to be ready', async () => (await readyCount(client)) === count, 180_000)
    const seconds = ((performance.now() - beginMs) / 1000).toFixed(1)
    figures.note(`${count} resources: start → all Ready`, '< 60 s', `${seconds} s`)

    const running = await pods(system, operators)
    assert.equal(running.length, 2)
    const before = await Promise.all(running.map(requestsOf))
    await pause(idleMs)
    const after = await Promise.all(running.map(requestsOf))
    const rates = after.map((sum, index) => ((sum - (before[index] ?? 0)) * 1000) / idleMs)
    const shown = rates.map(rate => rate.toFixed(2)).join(' and ')
    figures.note('idle: requests to the API server', '< 1/s an operator', `${shown}/s`)
    const memory = await Promise.all(
      running.map(pod => metric(pod, 'tollway_operator_process_resident_memory_bytes')),
    )
    const mebibytes = memory.map(bytes => Math.round(bytes / 2 ** 20))
    figures.note('RSS of an operator', '< 256 MiB', `${mebibytes.join(' and ')} MiB`)
    assert.ok(
      rates.every(rate => rate < 2),
      shown,
    )
  })
})

function limits(name: string) {
  return {
    apiVersion,
    kind: 'RateLimitConfig',
    metadata: { name, namespace },
    spec: {
      domain: name,
      descriptors: [
        { key: 'user', rateLimit: { unit: 'minute', requestsPerUnit: 10 } },
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

function isReady({ status }: StoredResource): boolean {
  return status?.conditions?.some(({ type, status: value }) => type === 'Ready' && value === 'True') ?? false
}

async function metricsOf({ status }: Pod): Promise<string> {
  return (await fetch(`http://${status.podIP}:8000/metrics`)).text()
}

async function metric(pod: Pod, name: string): Promise<number> {
  return Number(new RegExp(`^${name} (.*)$`, 'm').exec(await metricsOf(pod))?.[1])
}

async function requestsOf(pod: Pod): Promise<number> {
  const lines = (await metricsOf(pod)).matchAll(/^tollway_api_requests_total\{.*\} (\d+)$/gm)
  return [...lines].reduce((sum, [, value]) => sum + Number(value), 0)
}
