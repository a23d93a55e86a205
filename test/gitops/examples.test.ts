import assert from 'node:assert/strict'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it, test } from 'node:test'
import { resourceKinds } from '@tollway/crds/resource-kinds.ts'
import { CORE_SCHEMA, dump, loadAll } from 'js-yaml'
import { objectPath, withQuery } from '../../operator/environments/kubernetes/api/client.ts'
import type { KubeObject } from '../../operator/environments/kubernetes/api/kube-object.ts'
import { missingHelm, namespace, type RenderedObject, render } from '../charts/helm.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { root } from '../support/tollway.ts'
import { waitFor } from '../support/wait-for.ts'
import { healthCases } from './written-statuses.ts'

// biome-ignore lint/suspicious/noExplicitAny: the objects belong to other projects, tests read a few fields
const objectsOf = (file: string): any[] =>
  loadAll(readFileSync(join(root, 'examples/gitops', file), 'utf8'), { schema: CORE_SCHEMA })
const skip = missingHelm() || missingKubeAssets()
const kindsOf = (values: object) => new Set(render({ values: dump(values) }).map(({ kind }) => kind))

test('the Applications of Argo CD install definitions, operator and resources, in this order', () => {
  const applications = objectsOf('argo-cd/applications.yaml')
  const waves = applications.map(({ metadata }) => metadata.annotations['argocd.argoproj.io/sync-wave'])
  assert.deepEqual(waves, ['0', '1', '2'])
  for (const { spec } of applications) assert.ok(spec.syncPolicy.syncOptions.includes('ServerSideApply=true'))
  const [definitions, operator] = applications
  assert.ok(existsSync(join(root, definitions.spec.source.path, 'tollway.dev_ratelimitconfigs.yaml')))
  assert.ok(existsSync(join(root, operator.spec.source.path, 'Chart.yaml')))
  assert.equal(definitions.spec.syncPolicy.automated.prune, false)
})

test('the chart accepts the values of both examples, and leaves the definitions out', {
  skip: missingHelm(),
}, () => {
  const [, application] = objectsOf('argo-cd/applications.yaml')
  const release = objectsOf('flux/tollway.yaml').find(({ kind }) => kind === 'HelmRelease')
  for (const values of [application.spec.source.helm.valuesObject, release.spec.values]) {
    const kinds = kindsOf(values)
    assert.ok(kinds.has('Deployment'))
    assert.ok(!kinds.has('CustomResourceDefinition'))
  }
  assert.ok(existsSync(join(root, release.spec.chart.spec.chart, 'Chart.yaml')))
})

test('the objects of Flux refer to each other', () => {
  const [source, definitions, release] = objectsOf('flux/tollway.yaml')
  const [limits] = objectsOf('flux/limits.yaml')
  assert.equal(definitions.spec.sourceRef.name, source.metadata.name)
  assert.equal(release.spec.chart.spec.sourceRef.name, source.metadata.name)
  assert.deepEqual(limits.spec.dependsOn, [{ name: definitions.metadata.name }])
  const kinds = limits.spec.healthCheckExprs.map(({ kind }: { kind: string }) => kind)
  assert.deepEqual(
    kinds,
    resourceKinds.map(({ kind }) => kind),
  )
})

test('a second server-side apply of the example changes nothing', { skip, timeout: 90_000 }, async t => {
  const api = await startKubeApiServer()
  t.after(() => api.stop())
  for (const name of ['tollway-system', 'shop']) {
    const { status } = await api.call('POST', '/api/v1/namespaces', { metadata: { name } })
    assert.equal(status, 201)
  }
  const [, application] = objectsOf('argo-cd/applications.yaml')
  const rendered = render({ values: dump(application.spec.source.helm.valuesObject) })
  assert.ok(rendered.length > 10)
  for (const object of rendered) {
    const path = withQuery(await pathOf(api, object), { fieldManager: 'argocd-controller' })
    const versions = []
    for (let applied = 0; applied < 2; applied++) {
      const { status, body } = await api.call('PATCH', path, object)
      assert.ok(status === 200 || status === 201, `${object.kind}: ${JSON.stringify(body)}`)
      versions.push((body as KubeObject).metadata['resourceVersion'])
    }
    assert.equal(versions[0], versions[1], `${object.kind} ${object.metadata.name}`)
  }
})

async function pathOf(api: KubeApiServer, { apiVersion, kind, metadata }: RenderedObject): Promise<string> {
  const [version = '', group = ''] = apiVersion.split('/').reverse()
  const { body } = await api.call('GET', group === '' ? `/api/${version}` : `/apis/${apiVersion}`)
  const { resources } = body as { resources: readonly { name: string; kind: string; namespaced: boolean }[] }
  const found = resources.find(({ name, kind: other }) => other === kind && !name.includes('/'))
  assert.ok(found, `${apiVersion} ${kind}`)
  const { name: plural, namespaced } = found
  return objectPath({ group, version, plural, namespaced }, { namespace, ...metadata })
}

describe('the CEL of Flux', { skip: missingKubeAssets(), timeout: 90_000 }, () => {
  let api: KubeApiServer
  before(async () => {
    api = await startKubeApiServer()
    await make('/apis/apiextensions.k8s.io/v1/customresourcedefinitions', anyResource())
    for (const check of objectsOf('flux/limits.yaml')[0].spec.healthCheckExprs) {
      const [policy, binding] = policyOf(check)
      await make(policies, policy)
      await make(policies.replace(/policies$/, 'policybindings'), binding)
    }
    for (const { kind } of resourceKinds) {
      await waitFor(`the policy of ${kind}`, async () => (await healthOf(kind, {})) !== 'none')
    }
  })
  after(() => api?.stop())

  async function make(path: string, object: object): Promise<void> {
    const { status, body } = await api.call('POST', path, object)
    assert.equal(status, 201, JSON.stringify(body))
  }

  /** Returns the first state in the order in which Flux evaluates; `none` while no policy acts yet. */
  async function healthOf(kind: string, resource: Readonly<Record<string, unknown>>): Promise<string> {
    // Creation would reset the generation, so that the object is a field of another one.
    const content = { status: resource['status'] ?? {}, generation: 4 }
    const object = {
      apiVersion: 'test.example.com/v1',
      kind: 'Any',
      metadata: { name: 'a', namespace: 'default', labels: { kind } },
      content,
    }
    const { status, body } = await api.call('POST', `${anyPath}?dryRun=All`, object)
    if (status === 201 || status === 404) return 'none'
    const { message = '' } = body as { message?: string }
    return /health=(\w+)/.exec(message)?.[1] ?? message
  }

  for (const { kind } of resourceKinds) {
    it(`evaluates the statuses of ${kind} that the operator writes`, async () => {
      const states: Readonly<Record<string, string>> = {
        ...{ healthy: 'Current', degraded: 'Failed', progressing: 'InProgress', suspended: 'InProgress' },
      }
      for (const { name, resource } of healthCases(kind)) {
        const [health = ''] = name.split('_')
        assert.equal(await healthOf(kind, resource), states[health], name)
      }
    })
  }
})

const policies = '/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies'
const anyPath = '/apis/test.example.com/v1/namespaces/default/anys'

/** A kind whose objects have any content. */
function anyResource() {
  const free = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const schema = { openAPIV3Schema: { type: 'object', properties: { content: free } } }
  return {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: { name: 'anys.test.example.com' },
    spec: {
      group: 'test.example.com',
      scope: 'Namespaced',
      names: { kind: 'Any', plural: 'anys' },
      versions: [{ name: 'v1', served: true, storage: true, schema }],
    },
  }
}

interface Check {
  readonly kind: string
  readonly inProgress: string
  readonly failed: string
  readonly current: string
}

/** A policy that rejects each object with the state that the expressions give, in the order of Flux. */
function policyOf({ kind, inProgress, failed, current }: Check) {
  const onContent = (expression: string) => {
    const ofStatus = expression.replaceAll(/\bstatus\.(?=observed|conditions)/g, 'object.content.status.')
    return `(${ofStatus.replaceAll('metadata.generation', 'object.content.generation')})`
  }
  const states = [
    `${onContent(inProgress)} ? 'InProgress'`,
    `${onContent(failed)} ? 'Failed'`,
    `${onContent(current)} ? 'Current' : 'InProgress'`,
  ]
  const state = states.join(' : ')
  const name = `flux-${kind.toLowerCase()}`
  const spec = {
    failurePolicy: 'Fail',
    matchConstraints: {
      objectSelector: { matchLabels: { kind } },
      resourceRules: [
        { apiGroups: ['test.example.com'], apiVersions: ['v1'], operations: ['CREATE'], resources: ['anys'] },
      ],
    },
    validations: [{ expression: 'false', messageExpression: `'health=' + (${state})` }],
  }
  const apiVersion = 'admissionregistration.k8s.io/v1'
  const objects: readonly [object, object] = [
    { apiVersion, kind: 'ValidatingAdmissionPolicy', metadata: { name }, spec },
    {
      apiVersion,
      kind: 'ValidatingAdmissionPolicyBinding',
      metadata: { name },
      spec: { policyName: name, validationActions: ['Deny'] },
    },
  ]
  return objects
}
