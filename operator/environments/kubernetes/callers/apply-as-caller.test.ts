import assert from 'node:assert/strict'
import { Agent } from 'node:https'
import { after, before, describe, test } from 'node:test'
import { rateLimitConfigKind } from '@tollway/crds/rate-limit-config.ts'
import { customResourceDefinition } from '../../../../crds/generation/definition.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../../test/support/kube-api-server.ts'
import { temporaryFolder } from '../../../../test/support/temporary-folder.ts'
import { waitFor } from '../../../../test/support/wait-for.ts'
import { ApiError } from '../../../api/api-error.ts'
import type { ApplyRequest } from '../../../api/sources.ts'
import type { ApiAccess } from '../api/connection/access.ts'
import { addressOf, makeOperatorAccount, writeServiceAccount } from '../api/testdata/service-account.ts'
import { applyAsCaller } from './apply-as-caller.ts'

const group = '/apis/tollway.dev/v1alpha1'
const path = `${group}/namespaces/default/ratelimitconfigs`
const rbac = '/apis/rbac.authorization.k8s.io/v1'
const hour = 3600

interface Managed {
  readonly metadata: { readonly managedFields: readonly { readonly manager: string }[] }
  readonly spec: { readonly descriptors: readonly { readonly rateLimit: { requestsPerUnit: number } }[] }
}

describe('a resource that a caller applies', { skip: missingKubeAssets() }, () => {
  let kube: KubeApiServer
  let apply: ReturnType<typeof applyAsCaller>
  let access: ApiAccess
  let tokens: Readonly<Record<'author' | 'viewer', string>>

  before(async () => {
    kube = await startKubeApiServer()
    const definitions = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions'
    await kube.call('POST', definitions, customResourceDefinition(rateLimitConfigKind))
    await waitFor('the kind to be served', async () => (await kube.call('GET', path)).status === 200)
    const token = await makeOperatorAccount(kube, 'tollway')
    const folder = temporaryFolder('operator-account')
    access = writeServiceAccount(folder, await addressOf(kube), { namespace: 'tollway', token })
    apply = applyAsCaller(access, { random: Math.random })
    tokens = {
      author: await makeUser('author', ['get', 'create', 'patch']),
      viewer: await makeUser('viewer', ['get']),
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
      ...{ apiVersion: 'tollway.dev/v1alpha1', kind: 'RateLimitConfig' },
      // What a manager wrote before is not part of an apply.
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
    assert.deepEqual(await apply(request('one', 1)), { created: true, origin: 'cluster' })
    assert.deepEqual(await apply(request('one', 2)), { created: false, origin: 'cluster' })
    assert.equal(await limitOf('one'), 2)
    const { metadata } = await stored('one')
    assert.deepEqual(
      metadata.managedFields.map(({ manager }) => manager),
      ['tollway-console'],
    )
  })

  test('is only checked by a dry run', async () => {
    assert.deepEqual(await apply(request('two', 1, { dryRun: true })), { created: true, origin: 'cluster' })
    assert.equal((await kube.call('GET', `${path}/two`)).status, 404)
  })

  test('is refused with 403 without the right of the caller, whatever the operator may do', async () => {
    const { status, message } = await failure(apply(request('one', 9, { token: tokens.viewer })))
    assert.equal(status, 403)
    assert.match(message, /"system:serviceaccount:default:viewer" cannot patch resource "ratelimitconfigs"/)
    assert.ok(!message.includes(tokens.viewer))
    assert.equal(await limitOf('one'), 2)
  })

  test('is refused with 401 without a token and with one that is not valid', async () => {
    assert.equal((await failure(apply(request('one', 9, { token: undefined })))).status, 401)
    assert.equal((await failure(apply(request('one', 9, { token: 'canary-7f3a' })))).status, 401)
  })

  test('is not sent through a proxy, whose agent has the certificate of the operator', async () => {
    const agent = new Agent()
    const proxied: ApiAccess = { ...access, credentials: async () => ({ headers: {}, tls: {}, agent }) }
    const { status, message } = await failure(
      applyAsCaller(proxied, { random: Math.random })(request('one', 9)),
    )
    assert.equal(status, 501)
    assert.match(message, /proxy-url/)
    assert.equal(await limitOf('one'), 2)
  })

  test('is refused with the fields of another manager, until the caller takes them over', async () => {
    const { resource } = request('three', 3)
    const object = { ...resource, metadata: { name: 'three' } }
    await kube.call('PATCH', `${path}/three?fieldManager=kubectl`, object)
    const { status, message } = await failure(apply(request('three', 4)))
    assert.equal(status, 409)
    assert.match(message, /conflict with "kubectl".*spec\.descriptors/s)
    await apply(request('three', 4, { force: true }))
    assert.equal(await limitOf('three'), 4)
  })
})
