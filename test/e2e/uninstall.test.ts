import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { apiVersion } from '../../crds/resource-kind.ts'
import { root } from '../support/tollway.ts'
import { apply, eventually, helm, isReady, kubectl, pods, read } from './cluster.ts'
import { ensureInstalled, system, uninstall, untilReady, upgrade } from './release.ts'
import { withTestImages } from './test-images.ts'

const namespace = 'florist'
const selectorOf = (service: string) => `app.kubernetes.io/name=${service}`
const disabled = ['ratelimit', 'broker']

const skip = process.env['KUBECONFIG'] === undefined && 'KUBECONFIG names no cluster'

describe('services that are disabled, and a release that is uninstalled', { skip, timeout: 600_000 }, () => {
  before(async () => {
    await ensureInstalled()
    // An earlier file may have left it, or its deletion may not have ended.
    await kubectl('delete', 'namespace', namespace, '--ignore-not-found', '--timeout=120s')
    const example = join(root, 'examples/kubernetes/payments/payments.yaml')
    await apply(withTestImages(readFileSync(example, 'utf8')))
    await apply({ apiVersion: 'v1', kind: 'List', items: [limits, route] })
    const all = ['rlc/kept', 'asr/kept', 'mer/florist']
    await kubectl('-n', namespace, 'wait', '--for=condition=Ready', ...all, '--timeout=120s')
  })
  after(async () => {
    await kubectl('delete', 'namespace', namespace, 'databases', '--wait=false')
  })

  it('removes services that are disabled, and a rollback brings them back', async () => {
    await upgrade('rateLimit.enabled=false', 'broker.enabled=false')
    await eventually('no Deployment of them', async () => {
      const found = await Promise.all(disabled.map(name => read(system, `deployments/tollway-${name}`)))
      return found.every(deployment => deployment === undefined)
    })
    await helm('rollback', 'tollway', '-n', system, ...untilReady)
    const counts = disabled.map(async name => (await pods(system, selectorOf(name))).filter(isReady).length)
    assert.deepEqual(await Promise.all(counts), [3, 2])
  })

  it('an uninstall leaves the resources and the Secrets of merchants, and nothing else', async () => {
    await uninstall()
    const left = await kubectl('-n', namespace, 'get', 'rlc,asr,mer,secrets', '-o', 'name')
    for (const name of [
      '/kept',
      'animationstreamroute.tollway.dev/kept',
      '/florist',
      'secret/florist-payments',
    ])
      assert.ok(left.includes(`${name}\n`), left)
  })
})

const metadata = { name: 'kept', namespace }
const limits = {
  apiVersion,
  kind: 'RateLimitConfig',
  metadata,
  spec: {
    domain: 'kept',
    descriptors: [{ key: 'user', rateLimit: { unit: 'hour', requestsPerUnit: 3 } }],
  },
}
const route = {
  apiVersion,
  kind: 'AnimationStreamRoute',
  metadata,
  spec: { match: { streamIdPrefix: 'kept-' } },
}
