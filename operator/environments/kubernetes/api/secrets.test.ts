import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../../test/support/kube-api-server.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import type { SecretStore } from '../../../certificates/secret-content.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from '../testing/service-account.ts'
import { createKubeClient, type KubeClient } from './client.ts'
import { secretAccess } from './secrets.ts'

const namespace = 'system'
const { signal } = new AbortController()

describe('Secrets by name, as the operator', { skip: missingKubeAssets(), timeout: 90_000 }, () => {
  const folder = temporaryFolder('kube-secrets')
  let api: KubeApiServer
  let client: KubeClient
  let store: SecretStore
  const path = (name: string) => `/api/v1/namespaces/${namespace}/secrets/${name}`

  before(async () => {
    api = await startKubeApiServer()
    const token = await makeOperatorAccount(api, namespace)
    const access = writeServiceAccount(folder, await addressOf(api), { namespace, token })
    client = createKubeClient(access, { random: Math.random })
    store = secretAccess(client, { namespace, metadata: { labels: { part: 'tollway' } } })
    await waitFor('the roles to hold', async () => (await store.get('none', signal)) === undefined)
  })
  after(async () => {
    client?.close()
    await api?.stop()
  })

  it('creates a Secret, and rejects a second create', async () => {
    assert.equal(await store.get('made', signal), undefined)
    const made = await store.put('made', { a: 'ä\n', empty: '' }, undefined, signal)
    assert.deepEqual(made.data, { a: 'ä\n', empty: '' })
    assert.deepEqual(await store.get('made', signal), made)
    await assert.rejects(store.put('made', { a: '2' }, undefined, signal), { code: 409 })
    const { body } = await api.call('GET', path('made'))
    assert.deepEqual((body as { metadata: { labels: unknown } }).metadata.labels, { part: 'tollway' })
  })

  it('writes only over the known version, and keeps entries of others', async () => {
    const first = await store.put('changed', { a: '1', b: '1' }, undefined, signal)
    const second = await store.put('changed', { a: '2', b: '' }, first, signal)
    assert.notEqual(second.version, first.version)
    await assert.rejects(store.put('changed', { a: '3', b: '' }, first, signal), { code: 409 })
    const stringData = { a: 'theirs', other: 'x' }
    const object = { apiVersion: 'v1', kind: 'Secret', metadata: { name: 'changed' }, stringData }
    await api.call('PUT', path('changed'), object)
    const found = await store.get('changed', signal)
    const third = await store.put('changed', { a: '3', b: '' }, found, signal)
    assert.deepEqual(third.data, { a: '3', b: '', other: 'x' })
  })

  it('does not create a Secret again that was deleted meanwhile', async () => {
    const known = await store.put('deleted', { a: '1' }, undefined, signal)
    await api.call('DELETE', path('deleted'))
    await assert.rejects(store.put('deleted', { a: '2' }, known, signal), { code: 409 })
    assert.equal(await store.get('deleted', signal), undefined)
  })
})
