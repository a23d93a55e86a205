import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, it } from 'node:test'
import { isObject } from '@tollway/chassis/is-object.ts'
import { missingHelm, type RenderedObject, render } from '../charts/helm.ts'
import { previousChart } from './previous-release.ts'

/** Fields that an API server does not let an upgrade change. */
const immutableFields: Readonly<Record<string, readonly string[]>> = {
  Deployment: ['selector'],
  StatefulSet: ['selector', 'serviceName', 'volumeClaimTemplates', 'podManagementPolicy'],
  Service: ['clusterIP'],
}
const bindings = ['RoleBinding', 'ClusterRoleBinding']

const set = [
  ...['redis.bundled.enabled=true', 'broker.enabled=true', 'payments.enabled=true'],
  'payments.database.urlSecret.name=db',
]

/**
 * Returns the fields that must not change, by kind and name. Hooks are deleted before they are made again.
 */
function immutablesOf(objects: readonly RenderedObject[]): ReadonlyMap<string, unknown> {
  const kept = objects.filter(({ metadata }) => metadata.annotations?.['helm.sh/hook'] === undefined)
  return new Map(kept.map(object => [`${object.kind} ${object.metadata.name}`, immutableOf(object)]))
}

function immutableOf(object: RenderedObject): unknown {
  if (bindings.includes(object.kind)) return object['roleRef']
  const spec = isObject(object['spec']) ? object['spec'] : {}
  return (immutableFields[object.kind] ?? []).map(field => spec[field])
}

describe('an upgrade from the chart of 0.1.0', { skip: missingHelm() }, () => {
  it('accepts its values, and changes no immutable field', () => {
    const from = previousChart()
    const values = readFileSync(join(from, 'values.yaml'), 'utf8')
    const before = immutablesOf(render({ from, values, set }))
    const after = immutablesOf(render({ values, set }))
    const common = [...before.keys()].filter(key => after.has(key))
    assert.ok(common.some(key => key.startsWith('Deployment ')) && common.length > 10, common.join())
    for (const key of common) assert.deepEqual(after.get(key), before.get(key), key)
  })
})
