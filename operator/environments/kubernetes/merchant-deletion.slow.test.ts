import assert from 'node:assert/strict'
import { after, before, describe, it, type TestContext } from 'node:test'
import { systemClock } from '@tollway/chassis/clock.ts'
import { silentLog } from '@tollway/chassis/log/log.ts'
import { merchantKind } from '@tollway/crds/merchant.ts'
import { freePorts } from '../../../test/support/free-ports.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../test/support/kube-api-server.ts'
import { serveKinds } from '../../../test/support/serve-kinds.ts'
import { temporaryFolder } from '../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../test/support/wait-for.ts'
import { createProvisionClient } from '../../kinds/merchant/provision-client.ts'
import type { Provisioner } from '../../kinds/merchant/provisioner.ts'
import type { StatusCondition } from '../../status/conditions.ts'
import { type ProvisioningUnderTest, startProvisioning } from '../../testing/start-provisioning.ts'
import { createKubeClient, type KubeClient } from './api/client.ts'
import type { EventRecorder } from './api/events.ts'
import { openClusterMerchants } from './merchants.ts'
import { createGrantedSecrets } from './tenant-secrets/granted-secrets.ts'
import { createReadRateLimiter } from './tenant-secrets/read-rate-limiter.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from './testing/service-account.ts'

interface StoredMerchant {
  readonly metadata: { readonly uid: string; readonly finalizers?: readonly string[] }
  readonly status?: { readonly conditions: readonly StatusCondition[] }
}

const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
const inNamespace = (namespace: string) => `/apis/tollway.dev/v1alpha1/namespaces/${namespace}/merchants`
const merchants = inNamespace('default')
const addresses = { baseUrl: 'https://pay.example.org', payPageUrl: 'https://pay.example.org/pay' }
const missing = { name: 'missing', key: 'key' }
const unreadable = { url: 'https://example.org/hook', events: ['merchant.created'], secretRef: missing }

describe('the deletion of a Merchant whose policy is Delete', {
  skip: missingKubeAssets(),
  timeout: 120_000,
}, () => {
  const place = temporaryFolder('merchant-deletion')
  const events: Parameters<EventRecorder['record']>[0][] = []
  let api: KubeApiServer
  let service: ProvisioningUnderTest
  let client: KubeClient
  let unreachable: Provisioner

  before(async () => {
    api = await startKubeApiServer()
    service = await startProvisioning()
    await serveKinds(api, [merchantKind])
    const token = await makeOperatorAccount(api, 'tollway')
    const access = writeServiceAccount(place, await addressOf(api), { namespace: 'tollway', token })
    client = createKubeClient(access, { random: Math.random })
    const [port = 0] = await freePorts(1)
    unreachable = createProvisionClient({ url: new URL(`http://127.0.0.1:${port}`) })
  })
  after(async () => {
    client?.close()
    await service?.close()
    await api?.stop()
  })

  async function call(method: string, path: string, body: unknown, status: number): Promise<void> {
    const answer = await api.call(method, path, body)
    assert.equal(answer.status, status, JSON.stringify(answer.body))
  }
  const create = (name: string, changes: object = {}, annotations = {}, namespace = 'default') =>
    call('POST', inNamespace(namespace), resource(name, changes, annotations), 201)
  const remove = (name: string, namespace = 'default') =>
    call('DELETE', `${inNamespace(namespace)}/${name}`, undefined, 200)
  const find = async (name: string, namespace = 'default') => {
    const { status, body } = await api.call('GET', `${inNamespace(namespace)}/${name}`)
    return status === 404 ? undefined : (body as StoredMerchant)
  }
  const isGone = (name: string, namespace = 'default') =>
    waitFor(`${name} to be gone`, async () => (await find(name, namespace)) === undefined)

  /** Starts an operator; with undefined, payments are disabled. Resolves with a function that stops it. */
  async function startOperator(t: TestContext, provisioner: Provisioner | undefined) {
    const operator = openClusterMerchants({
      client,
      watchNamespaces: [],
      provisioner,
      addresses,
      log: silentLog,
      mayWrite: () => true,
      granted: createGrantedSecrets(client, { name: 'tollway', watchNamespaces: [] }, 'tollway'),
      rateLimiter: createReadRateLimiter({ readsPerSecond: 1000, clock: systemClock, random: Math.random }),
      events: { record: event => events.push(event) },
      backendFailure: () => undefined,
      timing: { intervalMs: 100 },
    })
    await operator.start()
    let stopped: Promise<void> | undefined
    const stop = () => {
      stopped ??= operator.stop()
      return stopped
    }
    t.after(stop)
    return stop
  }

  const become = (name: string, reason: string, namespace = 'default') =>
    waitFor(`${name} to become ${reason}`, async () => {
      const { status } = (await find(name, namespace)) ?? {}
      return status?.conditions.find(one => one.reason === reason)
    })

  /** Creates a Merchant. Resolves with its uid when its merchant exists. */
  async function provision(name: string, namespace = 'default'): Promise<string> {
    await create(name, {}, {}, namespace)
    await become(name, 'Provisioned', namespace)
    const { metadata } = (await find(name, namespace)) ?? assert.fail(name)
    assert.deepEqual(metadata.finalizers, ['tollway.dev/merchant'])
    return metadata.uid
  }
  async function isClosed(uid: string): Promise<boolean> {
    const sql = 'SELECT closed FROM merchants WHERE provision_uid = $1'
    const [row] = await service.storage.transaction(tx => tx.query<{ closed: Date | null }>(sql, [uid]))
    return row !== undefined && row.closed !== null
  }

  const nothingMade = [
    { reason: 'PaymentsDisabled', provisioner: () => undefined },
    { reason: 'PaymentsUnreachable', provisioner: () => unreachable },
    { reason: 'SecretMissing', changes: { webhooks: [unreadable] } },
    { reason: 'Invalid', changes: { company: { country: 'ZZ' } } },
    { reason: 'Annotated', annotations: { 'tollway.dev/paused': 'true' } },
  ]
  for (const { reason, provisioner = () => service.provisioner, changes, annotations } of nothingMade) {
    it(`waits for nothing when no merchant was made: ${reason}`, async t => {
      const stop = await startOperator(t, provisioner())
      for (const name of ['beside-operator', 'after-operator']) await create(name, changes, annotations)
      for (const name of ['beside-operator', 'after-operator']) {
        await become(name, reason)
        assert.equal((await find(name))?.metadata.finalizers, undefined)
      }
      await remove('beside-operator')
      assert.equal(await find('beside-operator'), undefined)
      await stop()
      await remove('after-operator')
      assert.equal(await find('after-operator'), undefined)
    })
  }

  it('waits for nothing after payments were disabled, and leaves the merchant open', async t => {
    const stop = await startOperator(t, service.provisioner)
    const uids = [await provision('before-deletion'), await provision('after-deletion')]
    await stop()
    await remove('after-deletion')
    assert.notEqual(await find('after-deletion'), undefined)
    await startOperator(t, undefined)
    await isGone('after-deletion')
    const event = events.find(({ reason }) => reason === 'NotClosed')
    assert.match(event?.note ?? '', /stays open/)
    await waitFor('the finalizer to go', async () => {
      return (await find('before-deletion'))?.metadata.finalizers === undefined
    })
    await remove('before-deletion')
    assert.equal(await find('before-deletion'), undefined)
    assert.deepEqual(await Promise.all(uids.map(isClosed)), [false, false])
  })

  it('waits for an operator, which closes the merchant', async t => {
    const stop = await startOperator(t, service.provisioner)
    const uid = await provision('waiting')
    await stop()
    await remove('waiting')
    assert.equal(await isClosed(uid), false)
    await startOperator(t, service.provisioner)
    await isGone('waiting')
    assert.equal(await isClosed(uid), true)
  })

  it('names the way out while payments do not answer', async t => {
    const stop = await startOperator(t, service.provisioner)
    const uid = await provision('stuck')
    await stop()
    await startOperator(t, unreachable)
    await remove('stuck')
    const { message } = await become('stuck', 'NotClosed')
    assert.match(
      message,
      /connection refused\. .*; to delete it without that, set spec\.deletionPolicy to Retain/,
    )
    await call(
      'PATCH',
      `${merchants}/stuck?fieldManager=somebody&force=true`,
      {
        apiVersion: 'tollway.dev/v1alpha1',
        kind: 'Merchant',
        metadata: { name: 'stuck' },
        spec: { deletionPolicy: 'Retain' },
      },
      200,
    )
    await isGone('stuck')
    assert.equal(await isClosed(uid), false)
  })

  it('closes the merchant when its namespace is deleted', async t => {
    await call('POST', '/api/v1/namespaces', { metadata: { name: 'closing' } }, 201)
    await startOperator(t, service.provisioner)
    const uid = await provision('shop', 'closing')
    await call('DELETE', '/api/v1/namespaces/closing', undefined, 200)
    // Takes the steps of the controller manager, which does not run here, in the same order.
    await call('DELETE', '/api/v1/namespaces/closing/secrets', undefined, 200)
    await call('DELETE', inNamespace('closing'), undefined, 200)
    await isGone('shop', 'closing')
    assert.equal(await isClosed(uid), true)
  })

  it('closes the merchant when the definition is deleted', async t => {
    await startOperator(t, service.provisioner)
    const uid = await provision('last')
    const path = `${definitions}/merchants.tollway.dev`
    await call('DELETE', path, undefined, 200)
    await waitFor('the definition to be gone', async () => (await api.call('GET', path)).status === 404)
    assert.equal(await isClosed(uid), true)
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
      deletionPolicy: 'Delete',
      ...changes,
    },
  }
}
