import assert from 'node:assert/strict'
import { describe, it, type TestContext } from 'node:test'
import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { createRunner } from '../../../controller/runner.ts'
import { clusterWorkloads } from '../../../workloads/registry.ts'
import { KubeApiError } from '../api/api-error.ts'
import type { ApiResource, KubeObject } from '../api/kube-object.ts'
import { secretAccess } from '../api/secrets.ts'
import { provideWorkloads } from './provide-workloads.ts'
import { createSecretDigests } from './secret-digests.ts'

const namespace = 'tollway-system'
const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'tollway-operator', uid: 'owner' }

function open(t: TestContext) {
  const judged = validateClusterConfig({
    rateLimit: { enabled: false },
    payments: { enabled: true, database: { urlSecret: { name: 'database' } } },
  })
  assert.ok('value' in judged)
  const config = judged.value
  const state = { leads: true, writes: 0, version: 0 }
  const stored = new Map<string, KubeObject>()
  const write = (object: KubeObject) => {
    state.writes += 1
    state.version += 1
    const { uid = `uid-${state.version}` } = stored.get(object.metadata.name)?.metadata ?? {}
    const metadata = { ...object.metadata, uid, resourceVersion: `${state.version}` }
    stored.set(object.metadata.name, { ...object, metadata })
    return { ...object, metadata }
  }
  const client = {
    get: async (_: ApiResource, { name }: { readonly name: string }) => stored.get(name),
    async create(_: ApiResource, object: KubeObject) {
      const { name } = object.metadata
      if (stored.has(name)) throw new KubeApiError(409, 'AlreadyExists', name)
      return write(object)
    },
    apply: async (_: ApiResource, object: KubeObject) => write(object),
  }
  write({ metadata: { name: 'database' }, data: { url: 'cG9zdGdyZXM6Ly8=' } })
  state.writes = 0
  const applied: (string | undefined)[] = []
  const infrastructure = {
    async apply({ secretsDigest }: { readonly secretsDigest?: string }) {
      applied.push(secretsDigest)
    },
    async remove() {},
  }
  const mayWrite = () => state.leads
  const digests = createSecretDigests({
    workloads: clusterWorkloads(config, namespace).flatMap(({ workload, enabled }) =>
      enabled ? [workload] : [],
    ),
    get: secretAccess(client, { namespace }).get,
    mayWrite,
    onProblem: () => {},
    random: Math.random,
    intervalMs: 5,
  })
  const installation = { name: 'tollway', namespace, owner, revision: '' }
  const provide = () => provideWorkloads({ config, client, installation, infrastructure, digests, mayWrite })
  t.after(() => digests.stop())
  return { state, stored, applied, digests, provide }
}

describe('provideWorkloads', () => {
  it('creates the Secret of the payments pods again when it is deleted, and replaces the pods', async t => {
    const { stored, applied, digests, provide } = open(t)
    const runner = createRunner({ reconcile: provide, onError: () => {}, random: Math.random })
    t.after(() => runner.stop())
    digests.onChange(runner.trigger)
    digests.start()
    runner.trigger()
    await waitFor('the Secret', async () => stored.has('tollway-payments') && applied.length === 1)
    const first = stored.get('tollway-payments')?.['data']
    stored.delete('tollway-payments')
    await waitFor('another Secret', async () => stored.has('tollway-payments') && applied.length === 2)
    assert.notDeepEqual(stored.get('tollway-payments')?.['data'], first)
    assert.notEqual(applied[1], applied[0])
  })

  it('writes nothing if this operator does not lead', async t => {
    const { state, applied, provide } = open(t)
    state.leads = false
    await provide()
    assert.deepEqual([state.writes, applied], [0, []])
  })

  it('writes no Secret if this operator loses the Lease meanwhile', async t => {
    const { state, stored, provide } = open(t)
    const get = stored.get.bind(stored)
    stored.get = name => {
      state.leads = false
      return get(name)
    }
    await provide()
    assert.equal(state.writes, 0)
  })
})
