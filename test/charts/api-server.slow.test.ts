import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { isObject } from '@tollway/chassis/is-object.ts'
import { loadAll } from 'js-yaml'
import { paymentsApiLimits } from '../../operator/environments/host/folder/payments-limits.ts'
import { collectionPath, objectPath } from '../../operator/environments/kubernetes/api/client.ts'
import type { ApiResource, KubeObject } from '../../operator/environments/kubernetes/api/kube-object.ts'
import { type Permission, permissions } from '../../operator/environments/kubernetes/api/permissions.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { foreignDefinitions } from './foreign-definitions.ts'
import { chart, helm, missingHelm, namespace, type RenderedObject, release, render } from './helm.ts'

const folder = join(import.meta.dirname, 'testdata')
const cases = readdirSync(folder).filter(name => name.endsWith('.in.yaml'))
const fieldManager = 'helm'
const dryRun = { dryRun: 'All', fieldValidation: 'Strict' }
const skip = missingHelm() || missingKubeAssets()

describe('a real API server accepts the objects of the chart', { skip, timeout: 180_000 }, () => {
  let api: KubeApiServer
  let limitsOfPayments: KubeObject
  before(async () => {
    api = await startKubeApiServer()
    const modes = ['enforce', 'warn', 'audit'].map(mode => [
      `pod-security.kubernetes.io/${mode}`,
      'restricted',
    ])
    await makeNamespace(namespace, Object.fromEntries(modes))
    for (const watched of ['shop', 'search']) await makeNamespace(watched)
    limitsOfPayments = installWithPayments()
    for (const definition of foreignDefinitions) await assertTaken(definition, {})
    await waitFor(
      'the definitions to be served',
      async () =>
        (await discover('monitoring.coreos.com/v1')).size >= 3 &&
        (await discover('gateway.networking.k8s.io/v1')).size > 0 &&
        (await discover('cert-manager.io/v1')).size > 0,
    )
  })
  after(() => api?.stop())

  /**
   * Installs and uninstalls the chart on this server, which has none of its definitions before and keeps
   * them.
   *
   * @returns the limits of the payments API as they were installed
   */
  function installWithPayments(): KubeObject {
    const access = [
      `--kube-apiserver=${api.url}`,
      `--kube-token=${api.token}`,
      '--kube-insecure-skip-tls-verify',
    ]
    const place = ['--namespace=payments', ...access]
    const values = `
payments: {enabled: true, database: {urlSecret: {name: postgres}}, env: {API_CALLS_PER_KEY: '7'}}
redis: {url: 'redis:6379'}
waitUntilReady: {enabled: false}
`
    helm(['install', release, chart, '--create-namespace', '--values=-', ...place], values)
    const installed = helm(['get', 'hooks', release, ...place])
    helm(['uninstall', release, ...place])
    return loadAll(installed).find(
      found => isObject(found) && found['kind'] === 'RateLimitConfig',
    ) as KubeObject
  }

  it('accepts the definitions of the chart before the limits of the payments API', async () => {
    const limits = await resourceOf({
      ...limitsOfPayments,
      apiVersion: 'tollway.dev/v1alpha1',
      kind: 'RateLimitConfig',
    })
    const key = { namespace: 'payments', name: limitsOfPayments.metadata.name ?? '' }
    const { status, body } = await api.call('GET', objectPath(limits, key))
    assert.equal(status, 200)
    const { spec } = body as { spec: unknown }
    const built = paymentsApiLimits({ API_CALLS_PER_KEY: '7' }).spec as {
      readonly descriptors: readonly object[]
    }
    const descriptors = built.descriptors.map(descriptor => ({ ...descriptor, value: '' }))
    assert.deepEqual(spec, { ...built, descriptors })
  })

  async function makeNamespace(name: string, labels = {}): Promise<void> {
    const { status } = await api.call('POST', '/api/v1/namespaces', { metadata: { name, labels } })
    assert.equal(status, 201)
  }

  /** The kinds of a group by their names, as the server knows them. */
  async function discover(apiVersion: string): Promise<ReadonlyMap<string, ApiResource>> {
    const [version = '', group = ''] = apiVersion.split('/').reverse()
    const { status, body } = await api.call('GET', group === '' ? `/api/${version}` : `/apis/${apiVersion}`)
    if (status !== 200 || !isObject(body) || !Array.isArray(body['resources'])) return new Map()
    const found = body['resources'] as { name: string; kind: string; namespaced: boolean }[]
    const whole = found.filter(({ name }) => !name.includes('/'))
    return new Map(
      whole.map(({ name, kind, namespaced }) => [kind, { group, version, plural: name, namespaced }]),
    )
  }

  async function resourceOf({ apiVersion, kind }: RenderedObject): Promise<ApiResource> {
    return (await discover(apiVersion)).get(kind) ?? assert.fail(`there is no ${apiVersion} ${kind}`)
  }

  /** Every rejection and every warning is a failure. */
  async function assertTaken(object: RenderedObject, query: Readonly<Record<string, string>>): Promise<void> {
    const key = { namespace, ...object.metadata }
    const resource = await resourceOf(object)
    const search = new URLSearchParams({ fieldManager, ...query })
    await assertDone('PATCH', `${objectPath(resource, key)}?${search}`, object)
    const pod = podOf(object)
    if (pod !== undefined)
      await assertDone('POST', `${collectionPath(pods, namespace)}?${new URLSearchParams(dryRun)}`, pod)
  }

  // The definitions are the same in every case, and each costs the server a second.
  const taken = new Set<string>()

  async function assertTakenOnce(object: RenderedObject): Promise<void> {
    const text = JSON.stringify(object)
    if (!taken.has(text)) await assertTaken(object, dryRun)
    taken.add(text)
  }

  async function assertDone(method: string, path: string, object: KubeObject): Promise<void> {
    const { status, body, warnings } = await api.call(method, path, object)
    const told = `${object.kind} ${object.metadata.name}: ${status} ${JSON.stringify(body)}`
    assert.ok(status === 200 || status === 201, told)
    assert.deepEqual(warnings, [], told)
  }

  for (const name of cases) {
    it(`${name}, in a namespace that enforces the profile "restricted"`, async () => {
      const objects = render({ values: readFileSync(join(folder, name), 'utf8') })
      assert.ok(objects.length > 5)
      for (const object of objects) await assertTakenOnce(object)
    })
  }

  it('rejects an unknown field, so that the other cases prove something', async () => {
    const object = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'a', namespace }, dta: {} }
    await assert.rejects(assertTaken(object, dryRun), /dta: field not declared in schema/)
  })

  it('grants the operator its rights, only in the watched namespaces', async () => {
    const set = ['redis.bundled.enabled=true', 'watchNamespaces={shop,search}', 'secretNamespaces={shop}']
    const roles = render({ set }).filter(({ kind }) =>
      /^(ServiceAccount|(Cluster)?Role|(Cluster)?RoleBinding)$/.test(kind),
    )
    for (const role of roles) await assertTaken(role, {})
    // Payments are not switched on here, so what only they need is not allowed.
    const always = permissions.filter(({ only }) => only === undefined)
    const namespaces = [namespace, 'shop', 'search', 'default']
    const places = { own: [namespace], watched: ['shop', 'search'], granted: ['shop'], cluster: namespaces }
    const isGranted = ({ group, resource }: Permission, verb: string, place: string, name?: string) =>
      always.some(
        one =>
          one.group === group &&
          one.resource === resource &&
          one.verbs.some(each => each === verb) &&
          places[one.scope].includes(place) &&
          (one.names === undefined || (name !== undefined && one.names.includes(name))),
      )
    for (const permission of permissions) {
      const { group, resource, verbs, names: [name] = [] } = permission
      for (const place of namespaces) {
        for (const verb of verbs) {
          for (const each of new Set([name, name && 'foreign'])) {
            const asked = {
              group,
              resource,
              verb,
              namespace: place,
              ...(each && { name: `tollway-${each}` }),
            }
            const told = `${verb} ${resource} ${each} in ${place}`
            assert.equal(await mayOperator(asked), isGranted(permission, verb, place, each), told)
          }
        }
      }
    }
    const secrets = { group: '', resource: 'secrets', namespace }
    assert.equal(await mayOperator({ ...secrets, verb: 'list' }), false)
    assert.equal(await mayOperator({ ...secrets, verb: 'get', name: 'tollway-redis' }), true)
  })

  it('installs over definitions that exist already with --take-ownership, and not without', async () => {
    const set = ['redis.bundled.enabled=true']
    const definitions = render({ set }).filter(({ kind }) => kind.startsWith('Custom'))
    for (const definition of definitions) await assertTaken(definition, {})
    const server = [
      `--kube-apiserver=${api.url}`,
      `--kube-token=${api.token}`,
      '--kube-insecure-skip-tls-verify',
    ]
    const install = (...more: readonly string[]) => {
      // Nothing runs pods here, so the hook would never end.
      const values = [...set, 'waitUntilReady.enabled=false'].flatMap(one => ['--set', one])
      return helm(['install', 'another', chart, '-n', namespace, ...server, ...values, ...more])
    }
    assert.throws(() => install(), /invalid ownership metadata/)
    assert.match(install('--take-ownership'), /STATUS: deployed/)
    const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/merchants.tollway.dev'
    const { annotations } = ((await api.call('GET', path)).body as KubeObject).metadata
    assert.equal(annotations?.['meta.helm.sh/release-name'], 'another')
  })

  async function mayOperator(asked: Readonly<Record<string, string>>): Promise<boolean> {
    const [resource, subresource] = (asked['resource'] ?? '').split('/')
    const resourceAttributes = { ...asked, resource, ...(subresource !== undefined && { subresource }) }
    const user = `system:serviceaccount:${namespace}:tollway-operator`
    const path = '/apis/authorization.k8s.io/v1/subjectaccessreviews'
    const { status, body } = await api.call('POST', path, { spec: { user, resourceAttributes } })
    assert.equal(status, 201, JSON.stringify(body))
    return (body as { status: { allowed: boolean } }).status.allowed
  }
})

const pods: ApiResource = { group: '', version: 'v1', plural: 'pods', namespaced: true }

/** Returns the pod that a controller would create; undefined for other objects. */
function podOf({ kind, metadata, spec }: RenderedObject): KubeObject | undefined {
  const template = isObject(spec) ? spec['template'] : undefined
  if (!isObject(template)) return undefined
  const { name } = metadata
  const labels = isObject(template['metadata']) ? template['metadata'] : {}
  return {
    apiVersion: 'v1',
    ...template,
    kind: 'Pod',
    metadata: { ...labels, name: `${name}-${kind.toLowerCase()}`, namespace },
  }
}
