import assert from 'node:assert/strict'
import { after, before, describe, it } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { merchantKind } from '@tollway/crds/merchant.ts'
import {
  type ApiAnswer,
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../test/support/kube-api-server.ts'
import { serveKinds } from '../../../test/support/serve-kinds.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import type { StatusCondition } from '../../status/conditions.ts'
import { type ProvisioningUnderTest, startProvisioning } from '../../testing/start-provisioning.ts'
import { createKubeClient, type KubeClient } from './api/client.ts'
import type { EventRecorder } from './api/events.ts'
import { openClusterMerchants } from './merchants.ts'
import { createGrantedSecrets } from './tenant-secrets/granted-secrets.ts'
import { createReadRateLimiter } from './tenant-secrets/read-rate-limiter.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from './testing/service-account.ts'

const merchants = '/apis/tollway.dev/v1alpha1/namespaces/default/merchants'
const secrets = '/api/v1/namespaces/default/secrets'
const addresses = { baseUrl: 'https://pay.example.org', payPageUrl: 'https://pay.example.org/pay' }

interface StoredMerchant {
  readonly metadata: { readonly uid: string; readonly finalizers?: readonly string[] }
  readonly spec: Readonly<Record<string, unknown>>
  readonly status?: Readonly<Record<string, unknown>> & { readonly conditions: readonly StatusCondition[] }
}

interface StoredSecret {
  readonly metadata: { readonly uid: string; readonly ownerReferences: readonly object[] }
  readonly data: Readonly<Record<string, string>>
}

describe('Merchants on a real API server', { skip: missingKubeAssets(), timeout: 90_000 }, () => {
  const place = temporaryFolder('cluster-merchants')
  const events: Parameters<EventRecorder['record']>[0][] = []
  let writers = 0
  let backendFailure: string | undefined
  let api: KubeApiServer
  let service: ProvisioningUnderTest
  let client: KubeClient
  let token: string
  let operator: ReturnType<typeof openClusterMerchants>

  before(async () => {
    api = await startKubeApiServer()
    service = await startProvisioning()
    await serveKinds(api, [merchantKind])
    token = await makeOperatorAccount(api, 'tollway')
    const access = writeServiceAccount(place, await addressOf(api), { namespace: 'tollway', token })
    client = createKubeClient(access, { random: Math.random })
    operator = openClusterMerchants({
      client,
      watchNamespaces: [],
      provisioner: service.provisioner,
      addresses,
      mayWrite: () => true,
      granted: createGrantedSecrets(client, { name: 'tollway', watchNamespaces: [] }, 'tollway'),
      rateLimiter: createReadRateLimiter({ readsPerSecond: 1000, clock: systemClock, random: Math.random }),
      events: { record: event => events.push(event) },
      backendFailure: () => backendFailure,
      log: silentLog,
      timing: { intervalMs: 100 },
    })
    await operator.start()
  })
  after(async () => {
    await operator?.stop()
    client?.close()
    await service?.close()
    await api?.stop()
  })

  async function call(
    method: string,
    path: string,
    body: unknown,
    status: number,
  ): Promise<ApiAnswer['body']> {
    const answer = await api.call(method, path, body)
    assert.equal(answer.status, status, JSON.stringify(answer.body))
    return answer.body
  }

  const create = (name: string, changes: object = {}, annotations = {}) =>
    call('POST', merchants, resource(name, changes, annotations), 201)
  const merchant = async (name: string) =>
    (await api.call('GET', `${merchants}/${name}`)).body as StoredMerchant
  const readyOf = async (name: string) =>
    (await merchant(name)).status?.conditions.find(({ type }) => type === 'Ready')?.reason
  const become = (name: string, reason: string) =>
    waitFor(`${name} to become ${reason}`, async () => (await readyOf(name)) === reason)

  /** Resolves with the entries that programs read; undefined while there is no key. */
  async function credentials(name: string) {
    const answer = await api.call('GET', `${secrets}/${name}`)
    if (answer.status !== 200) return undefined
    const { data, metadata } = answer.body as StoredSecret
    const texts = Object.entries(data).map(([name, text]) => [name, Buffer.from(text, 'base64').toString()])
    const entries = Object.fromEntries(texts) as Readonly<Record<string, string>>
    const key = entries['apiKey']
    return key === undefined ? undefined : { entries, key, metadata }
  }

  it('has its credentials in a Secret, and its public data in its status', async () => {
    await create('shop')
    await become('shop', 'Provisioned')
    const { status, metadata } = await merchant('shop')
    const found = await credentials('shop')
    assert.ok(found && status)
    const { key, metadata: secret, entries } = found
    const { merchantId, publicKey, appId } = status as Record<string, string>
    assert.deepEqual(entries, { apiKey: key, merchantId, publicKey, appId, ...addresses })
    const owner = { apiVersion: 'tollway.dev/v1alpha1', kind: 'Merchant', name: 'shop', uid: metadata.uid }
    assert.deepEqual(secret.ownerReferences, [{ ...owner, controller: true, blockOwnerDeletion: false }])
    const link = `https://pay.example.org/pay/?key=${publicKey}&currency=DKK`
    assert.deepEqual([status['posLink'], status['payLink']], [link, `${link}&amount=`])
    assert.equal(status['secretName'], 'shop')
    assert.equal(await service.appOf(key), appId)
    assert.equal(await service.merchantsOf(metadata.uid), 1)
    assert.deepEqual(metadata.finalizers, undefined)
    const told = JSON.stringify([await merchant('shop'), events])
    assert.ok(!told.includes(key), 'no status and no event contains the key')
    assert.deepEqual(
      events.map(({ type, reason }) => `${type} ${reason}`),
      ['Normal Provisioned'],
    )
  })

  it('is Degraded while the database of the payments service fails, and stays Ready', async () => {
    const degraded = async () =>
      (await merchant('shop')).status?.conditions.find(({ type }) => type === 'Degraded')?.message
    backendFailure = 'The backend of payments fails'
    operator.trigger()
    await waitFor('the condition', async () => (await degraded()) === 'The backend of payments fails')
    assert.equal(await readyOf('shop'), 'Provisioned')
    backendFailure = undefined
    operator.trigger()
    await waitFor('its end', async () => (await degraded()) === undefined)
  })

  it('gets another key when its Secret is deleted', async () => {
    const before = await credentials('shop')
    await call('DELETE', `${secrets}/shop`, undefined, 200)
    const now = await waitFor('another Secret', () => credentials('shop'))
    assert.notEqual(now.key, before?.key)
    assert.equal(now.entries['merchantId'], before?.entries['merchantId'])
    await waitFor('the old key to open nothing', async () => !(await service.appOf(before?.key ?? '')))
    assert.equal(await service.keysInForce(now.entries['appId'] ?? ''), 1)
  })

  it('gets another key on demand, and keeps other entries of its Secret', async () => {
    const before = await credentials('shop')
    await api.call('PATCH', `${secrets}/shop?fieldManager=somebody&force=true`, {
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name: 'shop' },
      data: { theirs: Buffer.from('x').toString('base64') },
    })
    await annotate('shop', { 'tollway.dev/rotate-key': '1' })
    const now = await waitFor('another key', async () => {
      const found = await credentials('shop')
      return found !== undefined && found.key !== before?.key && found
    })
    assert.equal(now.entries['theirs'], 'x')
    assert.ok(await service.appOf(now.key))
    assert.ok(await service.appOf(before?.key ?? ''), 'for a while both are valid')
    assert.equal(now.entries['apiKey.next'], undefined)
  })

  it('changes a field that can be changed', async () => {
    const { metadata } = await merchant('shop')
    await change('shop', { spec: { email: 'other@example.org' } })
    const sql = 'SELECT email FROM merchants WHERE provision_uid = $1'
    await waitFor('the address to be another one', async () => {
      const [row] = await service.storage.transaction(tx => tx.query<{ email: string }>(sql, [metadata.uid]))
      return row?.email === 'other@example.org'
    })
  })

  it('reports a foreign Secret and an invalid spec, without provisioning', async () => {
    await call('POST', secrets, { metadata: { name: 'theirs' }, stringData: { apiKey: 'secret' } }, 201)
    await create('foreign', { secretRef: { name: 'theirs' } })
    await become('foreign', 'SecretForeign')
    assert.equal((await credentials('theirs'))?.key, 'secret')
    await create('wrong', { company: { country: 'ZZ' } })
    await become('wrong', 'Invalid')
    const { uid } = (await merchant('wrong')).metadata
    assert.equal(await service.merchantsOf(uid), 0)
    await call('DELETE', `${secrets}/theirs`, undefined, 200)
    await become('foreign', 'Provisioned')
  })

  it('is left alone while it is paused', async () => {
    await create('paused', {}, { 'tollway.dev/paused': 'true' })
    const conditions = await waitFor('the report', async () => (await merchant('paused')).status?.conditions)
    assert.deepEqual(
      conditions.map(({ type }) => type),
      ['Paused'],
    )
    await annotate('paused', { 'tollway.dev/paused': 'false' })
    await become('paused', 'Provisioned')
  })

  it('is closed before its resource is deleted, if its policy says so', async () => {
    await create('closing', { deletionPolicy: 'Delete' })
    await become('closing', 'Provisioned')
    assert.deepEqual((await merchant('closing')).metadata.finalizers, ['tollway.dev/merchant'])
    const found = await credentials('closing')
    await call('DELETE', `${merchants}/closing`, undefined, 200)
    await waitFor('it to be gone', async () => (await api.call('GET', `${merchants}/closing`)).status === 404)
    assert.equal(await service.appOf(found?.key ?? ''), undefined)
  })

  it('stays as it is if its policy says so, and delays no deletion', async () => {
    const stored = await merchant('shop')
    await call(
      'PUT',
      `${merchants}/shop`,
      { ...stored, spec: { ...stored.spec, deletionPolicy: 'Delete' } },
      200,
    )
    await waitFor('it to be held', async () => (await merchant('shop')).metadata.finalizers)
    await change('shop', { spec: { deletionPolicy: 'Retain' } })
    await waitFor('it to be free', async () => (await merchant('shop')).metadata.finalizers === undefined)
    const found = await credentials('shop')
    await call('DELETE', `${merchants}/shop`, undefined, 200)
    assert.equal((await api.call('GET', `${merchants}/shop`)).status, 404)
    assert.ok(await service.appOf(found?.key ?? ''))
  })

  const annotate = (name: string, annotations: object) => change(name, { metadata: { annotations } })

  async function change(name: string, { metadata = {}, ...rest }: { metadata?: object; spec?: object }) {
    // Each write has its own field manager, because a write removes fields that its manager set before and
    // now leaves out.
    const path = `${merchants}/${name}?fieldManager=somebody-${writers++}&force=true`
    const envelope = { apiVersion: 'tollway.dev/v1alpha1', kind: 'Merchant', metadata: { name, ...metadata } }
    await call('PATCH', path, { ...envelope, ...rest }, 200)
  }

  it('is read by a new leader at the rate limit of reads, not together with all others', async t => {
    const names = Array.from({ length: 12 }, (_, index) => `many-${index}`)
    for (const name of names) await create(name)
    for (const name of names) await become(name, 'Provisioned')
    const readMs: number[] = []
    const access = writeServiceAccount(place, await addressOf(api), { namespace: 'tollway', token })
    const counting = createKubeClient(access, {
      random: Math.random,
      onRequest: (method, resource) => {
        if (method === 'GET' && resource === 'secrets') readMs.push(performance.now())
      },
    })
    const beginMs = performance.now()
    const readsPerSecond = 10
    const leader = openClusterMerchants({
      ...{
        client: counting,
        watchNamespaces: [],
        addresses,
        log: silentLog,
        provisioner: service.provisioner,
      },
      ...{ mayWrite: () => true, events: { record: () => {} }, timing: { intervalMs: 1 } },
      backendFailure: () => undefined,
      granted: createGrantedSecrets(client, { name: 'tollway', watchNamespaces: [] }, 'tollway'),
      rateLimiter: createReadRateLimiter({ readsPerSecond, clock: systemClock, random: Math.random }),
    })
    t.after(async () => {
      await leader.stop()
      counting.close()
    })
    await leader.start()
    leader.statuses.recheckAll()
    await waitFor('30 reads', async () => readMs.length >= 30)
    const seconds = (performance.now() - beginMs) / 1000
    assert.ok(readMs.length <= readsPerSecond * seconds + 4, `${readMs.length} reads in ${seconds} s`)
  })

  it('shares the read of a Secret until a change that needs a reconcile', async t => {
    const key = `whsec_${Buffer.alloc(24, 7).toString('base64')}`
    await call('POST', secrets, { metadata: { name: 'hook' }, stringData: { key } }, 201)
    const secretRef = { name: 'hook', key: 'key' }
    const webhooks = [{ url: 'https://example.org/hook', events: ['merchant.created'], secretRef }]
    await create('hooked', { webhooks })
    await become('hooked', 'Provisioned')
    const reads: string[] = []
    const granted = createGrantedSecrets(client, { name: 'tollway', watchNamespaces: [] }, 'tollway')
    const reader = openClusterMerchants({
      client,
      watchNamespaces: [],
      provisioner: service.provisioner,
      addresses,
      log: silentLog,
      ...{ mayWrite: () => true, events: { record: () => {} }, timing: { intervalMs: 1 } },
      backendFailure: () => undefined,
      granted: {
        attempt(namespace, name, operation) {
          reads.push(name)
          return granted.attempt(namespace, name, operation)
        },
        read(namespace, name, signal) {
          reads.push(name)
          return granted.read(namespace, name, signal)
        },
      },
      rateLimiter: createReadRateLimiter({ readsPerSecond: 1000, clock: systemClock, random: Math.random }),
    })
    t.after(() => reader.stop())
    await reader.start()
    const readsOf = (name: string) => reads.filter(one => one === name).length
    await waitFor('the first reads', () => readsOf('hooked') > 2)
    const before = readsOf('hook')
    for (let round = 1; round <= 3; round += 1) {
      await change('hooked', { metadata: { labels: { round: `${round}` } } })
      const isSeen = () => reader.list().some(({ metadata }) => metadata.labels?.['round'] === `${round}`)
      await waitFor('the label', isSeen)
      const seen = readsOf('hooked')
      await waitFor('two more reconciles', () => readsOf('hooked') > seen + 2)
    }
    assert.equal(readsOf('hook'), before)
  })
})

function resource(name: string, changes: object, annotations: object) {
  return {
    apiVersion: 'tollway.dev/v1alpha1',
    kind: 'Merchant',
    metadata: { name, annotations },
    spec: {
      currency: 'DKK',
      email: 'shop@example.org',
      website: 'https://example.org',
      descriptor: 'SHOP',
      company: { country: 'DK' },
      ...changes,
    },
  }
}
