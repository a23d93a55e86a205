import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { isObject } from '@tollway/chassis/is-object.ts'
import type { ApiFaults } from '../../../../test/support/api-proxy.ts'
import { missingKubeAssets } from '../../../../test/support/kube-api-server.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { InfrastructureError } from '../../../infrastructure/provider.ts'
import type { Workload } from '../../../model.ts'
import type { KubeClient } from '../api/client.ts'
import type { KubeObject } from '../api/kube-object.ts'
import { kindNames, kinds, podResource } from './kinds.ts'
import type { KubernetesInfrastructure } from './kubernetes.ts'
import {
  autoscaling,
  type ClusterUnderTest,
  mainName,
  type NamespaceUnderTest,
  rateLimit,
  startCluster,
} from './testing/cluster-under-test.ts'

const seed = Number(process.env['SEED'] ?? 20_260_501)
/** A crash is simulated after every third write; with SOAK=1 after each one. */
const stride = process.env['SOAK'] === '1' ? 1 : 3

/** The desired states in their order; undefined stands for the removal. */
const steps: readonly (Workload | undefined)[] = [
  rateLimit(),
  rateLimit({ autoscaling, env: { A: 'b' } }),
  rateLimit({ replicas: 1, ports: [] }),
  undefined,
]

describe('# workloads over a faulty connection to an API server', {
  skip: missingKubeAssets(),
  timeout: 240_000,
}, () => {
  let cluster: ClusterUnderTest
  before(async () => {
    process.stderr.write(`SEED=${seed}\n`)
    cluster = await startCluster(seed)
  })
  after(() => cluster?.stop())

  it('are completed by the next start after an end at any single write', async t => {
    const opened = await cluster.openNamespace(t)
    const wanted: unknown[] = []
    const counted = dyingClient(opened.client, Number.POSITIVE_INFINITY)
    const clean = opened.infrastructure({ client: counted.client })
    for (const step of steps) {
      await take(clean, step)
      wanted.push(await stateOf(opened))
    }
    await clean.close()
    const writes = counted.writes()
    assert.ok(writes > 15, `${writes} writes`)
    assert.deepEqual(wanted.at(-1), [])
    for (let k = 1 + (seed % stride); k < writes; k += stride) {
      const dying = dyingClient(opened.client, k)
      const first = opened.infrastructure({ client: dying.client })
      let done = 0
      const died = async () => {
        for (const step of steps) {
          await take(first, step)
          done += 1
        }
      }
      await assert.rejects(died(), /the process has ended/)
      await first.close()
      const second = opened.infrastructure()
      for (; done < steps.length; done += 1) {
        await take(second, steps[done])
        assert.deepEqual(await stateOf(opened), wanted[done], `step ${done} after an end at write ${k}`)
      }
      await second.close()
    }
  })

  const faults: readonly (readonly [string, ApiFaults])[] = [
    ['409', { answers: [{ status: 409, share: 0.5, of: 'writes' }] }],
    ['429 with Retry-After', { answers: [{ status: 429, share: 0.2, of: 'writes', retryAfterSeconds: 1 }] }],
    ['500', { answers: [{ status: 500, share: 0.4 }] }],
    ['503', { answers: [{ status: 503, share: 0.4 }] }],
    ['watches that end', { endWatchesAfterMs: 60 }],
    ['watches that break', { cutEvents: 0.4, garbageEvents: 0.2 }],
    ['watches that are too old', { goneEvents: 0.5 }],
  ]
  for (const [what, fault] of faults) {
    it(`reach the same state: ${what}`, async t => {
      const opened = await cluster.openNamespace(t)
      const clean = opened.infrastructure()
      const wanted: unknown[] = []
      for (const step of steps) {
        await take(clean, step)
        wanted.push(await stateOf(opened))
      }
      await clean.close()
      cluster.proxy.setFaults(fault)
      const made = opened.infrastructure()
      for (const [index, step] of steps.entries()) {
        await takeUntilDone(made, step)
        assert.deepEqual(await stateOf(opened), wanted[index], `step ${index}`)
      }
    })
  }

  it('are removed even if no watch has shown them', async t => {
    const opened = await cluster.openNamespace(t)
    const blind = { ...opened.client, watch: emptyWorld(opened.client).watch }
    const made = opened.infrastructure({ client: blind })
    await made.apply(rateLimit({ autoscaling }))
    await made.apply(rateLimit())
    assert.equal(await opened.get('HorizontalPodAutoscaler'), undefined)
    await made.remove('ratelimit')
    assert.deepEqual(await opened.names(), [])
  })

  it('are repaired after changes of others while watches break', async t => {
    const opened = await cluster.openNamespace(t)
    const made = opened.infrastructure()
    await made.apply(rateLimit())
    cluster.proxy.setFaults({
      endWatchesAfterMs: 60,
      goneEvents: 0.3,
      answers: [{ status: 500, share: 0.3 }],
    })
    await opened.delete('NetworkPolicy')
    await opened.edit('Deployment', { spec: { replicas: 9 } })
    await waitFor('both to be repaired', async () => {
      const replicas = replicasOf(await opened.get('Deployment'))
      return replicas === 2 && (await opened.get('NetworkPolicy')) !== undefined
    })
  })

  it('lose no object and no replicas because of an outdated copy', async t => {
    const opened = await cluster.openNamespace(t)
    const made = opened.infrastructure()
    await made.apply(rateLimit({ autoscaling }))
    await opened.edit('Deployment', { spec: { replicas: 8 } })
    const before = await stateOf(opened)
    const nothing = opened.infrastructure({ client: emptyWorld(opened.client) })
    await nothing.apply(rateLimit({ autoscaling }))
    assert.deepEqual(await stateOf(opened), before)
    assert.equal(replicasOf(await opened.get('Deployment')), 8)
  })

  it('keep an obsolete object that was changed since it was read', async t => {
    const opened = await cluster.openNamespace(t)
    const first = opened.infrastructure()
    await first.apply(rateLimit({ autoscaling }))
    await first.close()
    const frozen = await frozenWorld(opened)
    const second = opened.infrastructure({ client: frozen })
    await opened.edit('HorizontalPodAutoscaler', { metadata: { annotations: { theirs: 'x' } } })
    await assert.rejects(second.apply(rateLimit()), (error: Error) => {
      assert.ok(error instanceof InfrastructureError)
      assert.match(error.message, /^HorizontalPodAutoscaler "tollway-ratelimit" .* cannot be deleted: .*409/s)
      return true
    })
    assert.notEqual(await opened.get('HorizontalPodAutoscaler'), undefined)
  })
})

function take(infrastructure: KubernetesInfrastructure, step: Workload | undefined): Promise<void> {
  return step === undefined ? infrastructure.remove('ratelimit') : infrastructure.apply(step)
}

/** Repeats the step until it resolves, as a reconciler does. */
async function takeUntilDone(made: KubernetesInfrastructure, step: Workload | undefined): Promise<void> {
  await waitFor(
    'the workload',
    async () => {
      try {
        await take(made, step)
        return true
      } catch (error) {
        assert.ok(error instanceof InfrastructureError, `${error}`)
        return false
      }
    },
    30_000,
  )
}

/** Returns the content that writers decide, for all objects. */
async function stateOf(opened: NamespaceUnderTest): Promise<readonly unknown[]> {
  const state: unknown[] = []
  for (const kind of kindNames) {
    for (const name of [mainName, `${mainName}-http`]) {
      const found = await opened.get(kind, name)
      if (found === undefined) continue
      const { labels, annotations, ownerReferences } = found.metadata
      const { clusterIP, clusterIPs: _, ...spec } = isObject(found['spec']) ? found['spec'] : {}
      const headless = clusterIP === 'None'
      state.push({ kind, name, labels, annotations, ownerReferences, spec, headless })
    }
  }
  return state
}

function replicasOf(object: KubeObject | undefined): unknown {
  return isObject(object?.['spec']) ? object['spec']['replicas'] : undefined
}

/** Returns a client of a process that ends right after its write number `lastWrite`. */
function dyingClient(client: KubeClient, lastWrite: number) {
  let writes = 0
  const assertAlive = () => {
    if (writes >= lastWrite) throw new InfrastructureError('the process has ended')
  }
  const dying: KubeClient = {
    ...client,
    async get(...call) {
      assertAlive()
      return client.get(...call)
    },
    async apply(...call) {
      assertAlive()
      const result = await client.apply(...call)
      writes += 1
      assertAlive()
      return result
    },
    async delete(...call) {
      assertAlive()
      await client.delete(...call)
      writes += 1
      assertAlive()
    },
  }
  return { client: dying, writes: () => writes }
}

/** Returns a client whose lists are empty and whose watches yield no event. */
function emptyWorld(client: KubeClient): KubeClient {
  return {
    ...client,
    list: async () => ({ items: [], resourceVersion: '1' }),
    watch: (_resource, { signal }) => silence(signal),
  }
}

/** Returns a client whose lists keep their present content and whose watches yield no event. */
async function frozenWorld({ client, namespace }: NamespaceUnderTest): Promise<KubeClient> {
  const pages = new Map<string, ReturnType<KubeClient['list']>>()
  const list: KubeClient['list'] = (resource, options) => {
    const page = pages.get(resource.plural) ?? client.list(resource, options)
    pages.set(resource.plural, page)
    return page
  }
  const labelSelector = 'app.kubernetes.io/managed-by=tollway'
  const all = [...Object.values(kinds), podResource]
  await Promise.all(all.map(resource => list(resource, { namespace, labelSelector, limit: 100 })))
  return { ...client, list, watch: (_resource, { signal }) => silence(signal) }
}

async function* silence(signal: AbortSignal): AsyncGenerator<never> {
  await new Promise(resolve => signal.addEventListener('abort', resolve, { once: true }))
}
