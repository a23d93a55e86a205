import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { CORE_SCHEMA, load } from 'js-yaml'
import type { KubeObject } from '../../operator/environments/kubernetes/api/kube-object.ts'
import { type KubeApiServer, missingKubeAssets, startKubeApiServer } from '../support/kube-api-server.ts'
import { waitFor } from '../support/wait-for.ts'
import { chart, helm, missingHelm, namespace, type RenderedObject, render } from './helm.ts'

const skip = missingHelm() || missingKubeAssets()
const redis = 'redis.bundled.enabled=true'
const path = '/apis/apiextensions.k8s.io/v1/customresourcedefinitions/merchants.tollway.dev'

const definitionsOf = (set: readonly string[]): readonly RenderedObject[] =>
  render({ set: [redis, ...set] }).filter(
    ({ kind, metadata }) =>
      kind === 'CustomResourceDefinition' || metadata.name === 'ratelimitconfigs.tollway.dev',
  )

describe('definitions in the chart', { skip: missingHelm() }, () => {
  it('have the version of the chart, and survive an uninstall', () => {
    const { version } = load(readFileSync(join(chart, 'Chart.yaml'), 'utf8'), { schema: CORE_SCHEMA }) as {
      version: string
    }
    const definitions = definitionsOf([])
    assert.equal(definitions.length, 5)
    for (const { metadata } of definitions) {
      const annotations = { 'helm.sh/resource-policy': 'keep', 'tollway.dev/version': version }
      assert.deepEqual(metadata.annotations, annotations)
    }
  })

  for (const name of ['crds.enabled', 'crds.install']) {
    it(`are left out with ${name}=false`, () => {
      assert.deepEqual(definitionsOf([`${name}=false`]), [])
    })
  }
})

describe('definitions of a release in a cluster', { skip, timeout: 180_000 }, () => {
  let api: KubeApiServer
  before(async () => {
    api = await startKubeApiServer()
  })
  after(() => api?.stop())

  const place = () => [
    ...['--namespace', namespace, `--kube-apiserver=${api.url}`, `--kube-token=${api.token}`],
    '--kube-insecure-skip-tls-verify',
  ]
  /** Nothing runs pods here, so the hooks would never end. */
  const release = (set: readonly string[]) => {
    const values = [redis, 'waitUntilReady.enabled=false', ...set].flatMap(one => ['--set', one])
    return helm(['upgrade', '--install', 'tollway', chart, '--create-namespace', ...place(), ...values])
  }
  const versionInCluster = async () =>
    ((await api.call('GET', path)).body as KubeObject).metadata.annotations?.['tollway.dev/version']

  it('are not replaced by older ones, unless a value allows it', async () => {
    release([])
    const live = (await api.call('GET', path)).body as KubeObject
    const { name, labels, annotations } = live.metadata
    // This is how a newer chart leaves the definition.
    const { status } = await api.call('PATCH', `${path}?fieldManager=helm&force=true`, {
      ...{ ...live, apiVersion: 'apiextensions.k8s.io/v1', kind: 'CustomResourceDefinition' },
      metadata: { name, labels, annotations: { ...annotations, 'tollway.dev/version': '0.2.0-rc.1' } },
    })
    assert.equal(status, 200)
    assert.throws(
      () => release([]),
      /merchants\.tollway\.dev in the cluster is of version 0\.2\.0-rc\.1, .* of 0\.2\.0-dev.*crds\.allowDowngrade=true/,
    )
    assert.equal(await versionInCluster(), '0.2.0-rc.1')
    release(['crds.enabled=false'])
    assert.equal(await versionInCluster(), '0.2.0-rc.1')
    release(['crds.allowDowngrade=true'])
    assert.equal(await versionInCluster(), '0.2.0-dev')
  })

  it('are deleted by an uninstall with crds.keep=false, and only then', async () => {
    helm(['uninstall', 'tollway', ...place()])
    assert.equal((await api.call('GET', path)).status, 200)
    release(['crds.keep=false'])
    helm(['uninstall', 'tollway', ...place()])
    await waitFor('the definition to be deleted', async () => (await api.call('GET', path)).status === 404)
  })
})
