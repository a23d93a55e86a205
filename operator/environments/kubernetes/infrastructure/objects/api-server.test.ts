import assert from 'node:assert/strict'
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { after, before, describe, it } from 'node:test'
import { isObject } from '@tollway/chassis/is-object.ts'
import {
  type KubeApiServer,
  missingKubeAssets,
  startKubeApiServer,
} from '../../../../../test/support/kube-api-server.ts'
import { collectionPath, objectPath } from '../../api/client.ts'
import type { KubeObject, ObjectKey } from '../../api/kube-object.ts'
import { kinds, podResource, requireKind } from '../kinds.ts'
import { namespace, objectsOfCase } from '../testing/objects-of-case.ts'

const folder = join(import.meta.dirname, 'testdata/objects')
const cases = readdirSync(folder).filter(name => name.endsWith('.in.yaml'))
const dryRun = 'dryRun=All&fieldValidation=Strict'

describe('# objects that a real API server accepts', { skip: missingKubeAssets(), timeout: 90_000 }, () => {
  let api: KubeApiServer
  before(async () => {
    api = await startKubeApiServer()
    const restricted = (mode: string) => [`pod-security.kubernetes.io/${mode}`, 'restricted']
    const labels = Object.fromEntries(['enforce', 'warn', 'audit'].map(restricted))
    const { status } = await api.call('POST', '/api/v1/namespaces', { metadata: { name: namespace, labels } })
    assert.equal(status, 201)
  })
  after(() => api?.stop())

  /** Asserts that the API server accepts the object without a warning. */
  async function assertTaken(method: string, path: string, object: KubeObject): Promise<void> {
    const { status, body, warnings } = await api.call(method, path, object)
    const description = `${object.kind} ${object.metadata.name}: ${status} ${JSON.stringify(body)}`
    assert.ok(status === 200 || status === 201, description)
    assert.deepEqual(warnings, [], description)
  }

  for (const name of cases) {
    it(`${name}, in a namespace that enforces the profile "restricted"`, async () => {
      for (const object of objectsOfCase(readFileSync(join(folder, name), 'utf8'))) {
        const path = objectPath(kinds[requireKind(object)], object.metadata)
        await assertTaken('PATCH', `${path}?${dryRun}&fieldManager=test`, object)
        if (object.kind === 'Deployment') await assertTaken('POST', podsPath, podOf(object))
      }
    })
  }

  it('exclude a pod that is not restricted, so an object that is not allowed would be noticed', async () => {
    const spec = { containers: [{ name: 'a', image: 'a' }] }
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata: { name: 'free', namespace }, spec }
    const { status, body } = await api.call('POST', podsPath, pod)
    assert.equal(status, 403)
    assert.match(JSON.stringify(body), /violates PodSecurity/)
  })
})

const podKey: ObjectKey = { namespace, name: 'pod' }
const podsPath = `${collectionPath(podResource, namespace)}?${dryRun}`

/** Returns the pod that the Deployment controller would create. */
function podOf({ spec }: KubeObject): KubeObject {
  const template =
    isObject(spec) && isObject(spec['template']) ? spec['template'] : assert.fail('no template')
  const metadata = isObject(template['metadata']) ? template['metadata'] : {}
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    ...template,
    metadata: { ...metadata, name: podKey.name, namespace },
  }
}
