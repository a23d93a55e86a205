import assert from 'node:assert/strict'
import { Agent } from 'node:https'
import { after, before, describe, test } from 'node:test'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../../test/support/kube-api-server.ts'
import { serveKinds } from '../../../../test/support/serve-kinds.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { ApiError } from '../../../api/errors.ts'
import type { ApplyRequest } from '../../../api/sources.ts'
import type { KubeApiAccess } from '../api/access.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from '../testing/service-account.ts'
import { applyAsCaller, readAsCaller } from './caller-client.ts'

const group = '/apis/tollway.dev/v1alpha1'
const path = `${group}/namespaces/default/ratelimitconfigs`
const rbac = '/apis/rbac.authorization.k8s.io/v1'
const hour = 3600

interface Managed {
  readonly metadata: {
    readonly resourceVersion: string
    readonly managedFields: readonly { readonly manager: string }[]
  }
  readonly spec: { readonly descriptors: readonly { readonly rateLimit: { requestsPerUnit: number } }[] }
}

describe('# a resource that a caller reads and applies', { skip: missingKubeAssets() }, () => {
  let kube: KubeApiServer
  let apply: ReturnType<typeof applyAsCaller>
  let read: ReturnType<typeof readAsCaller>
  let access: KubeApiAccess
  let tokens: Readonly<Record<'author' | 'viewer' | 'stranger', string>>

  before(async () => {
    kube = await startKubeApiServer()
    await serveKinds(kube, [rateLimitConfigKind])
    const token = await makeOperatorAccount(kube, 'tollway')
    const folder = temporaryFolder('operator-account')
    access = writeServiceAccount(folder, await addressOf(kube), { namespace: 'tollway', token })
    apply = applyAsCaller(access, { random: Math.random })
    read = readAsCaller(access, { random: Math.random })
    tokens = {
      author: await makeUser('author', ['get', 'create', 'patch']),
      viewer: await makeUser('viewer', ['get']),
      stranger: await makeUser('stranger', ['list']),
    }
  })
  after(() => kube?.stop())

  async function makeUser(name: string, verbs: readonly string[]): Promise<string> {
    const { body } = await kube.call('POST', '/api/v1/namespaces/default/serviceaccounts', {
      metadata: { name },
    })
    const { metadata } = body as { metadata: { uid: string } }
    const rules = [{ apiGroups: ['tollway.dev'], resources: ['ratelimitconfigs'], verbs }]
    await kube.call('POST', `${rbac}/namespaces/default/roles`, { metadata: { name }, rules })
    await kube.call('POST', `${rbac}/namespaces/default/rolebindings`, {
      metadata: { name },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name },
      subjects: [{ kind: 'ServiceAccount', name, namespace: 'default' }],
    })
    const expiresAt = Math.floor(Date.now() / 1000) + hour
    return kube.signToken({ namespace: 'default', name, uid: metadata.uid }, expiresAt)
  }

  function request(name: string, requestsPerUnit: number, more: Partial<ApplyRequest> = {}): ApplyRequest {
    const descriptors = [{ key: 'user', rateLimit: { unit: 'minute', requestsPerUnit } }]
    const resource = {
      apiVersion: 'tollway.dev/v1alpha1',
      kind: 'RateLimitConfig',
      // An apply leaves out what the API server has recorded about earlier writes.
      metadata: { name, namespace: 'default', resourceVersion: '1', managedFields: [] },
      spec: { domain: name, descriptors },
    }
    const signal = AbortSignal.timeout(10_000)
    const place = { namespace: 'default', name }
    return { resource, ...place, dryRun: false, force: false, token: tokens.author, signal, ...more }
  }

  const stored = async (name: string) => (await kube.call('GET', `${path}/${name}`)).body as Managed
  const limitOf = async (name: string) => (await stored(name)).spec?.descriptors[0]?.rateLimit.requestsPerUnit
  async function failure(run: Promise<unknown>): Promise<ApiError> {
    const [result] = await Promise.allSettled([run])
    assert.ok(result.status === 'rejected' && result.reason instanceof ApiError, JSON.stringify(result))
    return result.reason
  }

  test('is created and changed in the name of the caller', async () => {
    assert.partialDeepStrictEqual(await apply(request('one', 1)), { created: true, origin: 'cluster' })
    assert.partialDeepStrictEqual(await apply(request('one', 2)), { created: false, origin: 'cluster' })
    assert.equal(await limitOf('one'), 2)
    const { metadata } = await stored('one')
    assert.deepEqual(
      metadata.managedFields.map(({ manager }) => manager),
      ['tollway-console'],
    )
  })

  test('is only checked by a dry run', async () => {
    assert.equal((await apply(request('two', 1, { dryRun: true }))).created, true)
    assert.equal((await kube.call('GET', `${path}/two`)).status, 404)
  })

  test('is rejected with 403 without the right of the caller, whatever the operator may do', async () => {
    const { status, code, message } = await failure(apply(request('one', 9, { token: tokens.viewer })))
    assert.deepEqual([status, code], [403, 'forbidden'])
    assert.match(message, /"system:serviceaccount:default:viewer" cannot patch resource "ratelimitconfigs"/)
    assert.ok(!message.includes(tokens.viewer))
    assert.equal(await limitOf('one'), 2)
  })

  test('is rejected with 401 without a token and with an invalid one', async () => {
    for (const token of [undefined, 'canary-7f3a']) {
      const { status, code } = await failure(apply(request('one', 9, { token })))
      assert.deepEqual([status, code], [401, 'unauthenticated'])
    }
  })

  test('is rejected with 422 if its content is not allowed', async () => {
    const { status, code, message } = await failure(apply(request('NOT.A_NAME', 1)))
    assert.deepEqual([status, code], [422, 'invalid'])
    assert.match(message, /metadata\.name: Invalid value: "NOT\.A_NAME"/)
  })

  test('is rejected with 503 while the API server does not answer', async () => {
    const folder = temporaryFolder('unreachable')
    const account = { namespace: 'tollway', token: tokens.author }
    const unreachable = writeServiceAccount(folder, { ...(await addressOf(kube)), port: 1 }, account)
    const { status, code } = await failure(
      applyAsCaller(unreachable, { random: Math.random })(request('one', 9)),
    )
    assert.deepEqual([status, code], [503, 'api-server'])
  })

  test('is not sent through a proxy, whose agent has the certificate of the operator', async () => {
    const agent = new Agent()
    const proxied: KubeApiAccess = { ...access, credentials: async () => ({ headers: {}, tls: {}, agent }) }
    const { status, code, message } = await failure(
      applyAsCaller(proxied, { random: Math.random })(request('one', 9)),
    )
    assert.deepEqual([status, code], [501, 'proxy'])
    assert.match(message, /proxy-url/)
    assert.equal(await limitOf('one'), 2)
  })

  test('is rejected with the fields of another manager, until the caller takes them over', async () => {
    const { resource } = request('three', 3)
    const object = { ...resource, metadata: { name: 'three' } }
    await kube.call('PATCH', `${path}/three?fieldManager=kubectl`, object)
    const { status, code, message } = await failure(apply(request('three', 4)))
    assert.deepEqual([status, code], [409, 'conflict'])
    assert.match(message, /^Apply failed with 1 conflict: conflict with "kubectl".*spec\.descriptors/s)
    await apply(request('three', 4, { force: true }))
    assert.equal(await limitOf('three'), 4)
  })

  const reading = (name: string, token: string | undefined = tokens.author) =>
    read({ kind: 'RateLimitConfig', namespace: 'default', name, token, signal: AbortSignal.timeout(10_000) })
  const edit = (name: string, labels: Readonly<Record<string, string>>) =>
    kube.call('PATCH', `${path}/${name}?fieldManager=kubectl`, {
      apiVersion: 'tollway.dev/v1alpha1',
      kind: 'RateLimitConfig',
      metadata: { name, labels },
    })

  test('is read without fields of the API server', async () => {
    const lastApplied = 'kubectl.kubernetes.io/last-applied-configuration'
    const { resource } = request('four', 4)
    const metadata = { name: 'four', annotations: { [lastApplied]: '{"canary-7f3a": 1}', team: 'shop' } }
    await kube.call('PATCH', `${path}/four?fieldManager=kubectl`, { ...resource, metadata })
    const { manifest, origin } = await reading('four')
    assert.equal(origin, 'cluster')
    assert.equal(
      manifest,
      `apiVersion: tollway.dev/v1alpha1
kind: RateLimitConfig
metadata:
  name: four
  namespace: default
  annotations:
    team: shop
spec:
  descriptors:
    - key: user
      rateLimit:
        requestsPerUnit: 4
        unit: minute
      value: ''
  domain: four
`,
    )
  })

  test('is read only with the right of the caller', async () => {
    assert.match((await reading('four', tokens.viewer)).manifest, /name: four/)
    assert.equal((await failure(reading('four', tokens.stranger))).status, 403)
    const missing = await failure(reading('none'))
    assert.deepEqual([missing.status, missing.code, missing.problems[0]?.path], [404, 'not-found', 'name'])
  })

  test('is applied with the version that was read, unless another manager has changed it', async () => {
    await apply(request('five', 5))
    const { version } = await reading('five')
    const applied = await apply(request('five', 6, { version }))
    assert.deepEqual(applied, { created: false, origin: 'cluster', version: (await reading('five')).version })
    await edit('five', { team: 'bank' })
    const { status, code, message } = await failure(apply(request('five', 7, { version: applied.version })))
    assert.deepEqual([status, code], [409, 'changed'])
    assert.match(message, /RateLimitConfig default\/five has version \w{32}; expected \w{32}/)
    assert.equal(await limitOf('five'), 6)
  })

  test('has the same version after a change of its status', async () => {
    const { version } = await apply(request('six', 6))
    const resource = { apiVersion: 'tollway.dev/v1alpha1', kind: 'RateLimitConfig' }
    const status = { observedGeneration: 1, enforced: '1/1' }
    const before = await stored('six')
    const change = { ...resource, metadata: { name: 'six' }, status }
    await kube.call('PATCH', `${path}/six/status?fieldManager=tollway&force=true`, change)
    const { resourceVersion } = (await stored('six')).metadata
    assert.notEqual(resourceVersion, before.metadata.resourceVersion)
    await apply(request('six', 7, { version }))
    assert.equal(await limitOf('six'), 7)
  })

  test('is not created again with the version of a deleted resource', async () => {
    const { version } = await apply(request('seven', 7))
    await kube.call('DELETE', `${path}/seven`)
    assert.equal((await failure(apply(request('seven', 8, { version })))).code, 'changed')
    assert.equal((await kube.call('GET', `${path}/seven`)).status, 404)
  })
})
