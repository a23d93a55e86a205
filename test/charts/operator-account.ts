import assert from 'node:assert/strict'
import { validateClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { KubeObject } from '../../operator/environments/kubernetes/api/kube-object.ts'
import { workloadObjects } from '../../operator/environments/kubernetes/infrastructure/objects/workload-objects.ts'
import { operatorName } from '../../operator/workloads/cluster-names.ts'
import { clusterWorkloads, makePodShape } from '../../operator/workloads/registry.ts'
import type { KubeApiServer } from '../support/kube-api-server.ts'
import { configOf, namespace, type RenderedObject } from './helm.ts'

/** The kinds of the account of the operator, its rights and its policies. */
const rights = /^(ServiceAccount|(Cluster)?Role(Binding)?|ValidatingAdmissionPolicy(Binding)?)$/
const clusterWide = /^(Cluster|Validating|Custom)/

/** Returns the path of an object of the chart. */
function pathOf({ apiVersion, kind, metadata }: RenderedObject): string {
  const plural = `${kind.toLowerCase().replace(/policy$/, 'policie')}s`
  const group = apiVersion === 'v1' ? '/api/v1' : `/apis/${apiVersion}`
  const place = clusterWide.test(kind) ? '' : `/namespaces/${metadata.namespace ?? namespace}`
  return `${group}${place}/${plural}/${metadata.name}`
}

/** Applies the account of the operator, its rights and its policies, and objects of other kinds, as helm does. */
export async function installRights(
  api: KubeApiServer,
  objects: readonly RenderedObject[],
  others: readonly string[] = [],
): Promise<void> {
  for (const object of objects.filter(({ kind }) => rights.test(kind) || others.includes(kind))) {
    const path = `${pathOf(object)}?fieldManager=helm&force=true`
    const { status, body } = await api.call('PATCH', path, object)
    assert.ok(status < 300, JSON.stringify(body))
  }
}

/** Resolves with a token of an account. */
export async function tokenFor(api: KubeApiServer, name: string, place = namespace): Promise<string> {
  const path = `/api/v1/namespaces/${place}/serviceaccounts/${name}/token`
  const { body } = await api.call('POST', path, { spec: { expirationSeconds: 3_600 } })
  return (body as { status: { token: string } }).status.token
}

/** Returns the objects that the operator of a rendered release makes for its services. */
export function madeObjects(objects: readonly RenderedObject[], name: string): readonly KubeObject[] {
  const judged = validateClusterConfig(configOf(objects, name))
  assert.ok('value' in judged, JSON.stringify(judged))
  const config = judged.value
  const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: operatorName(name), uid: 'a-uid' }
  const place = { name, namespace, owner, revision: 'b5bb9d8014a0f9b1' }
  return clusterWorkloads(config, namespace)
    .filter(({ enabled }) => enabled)
    .flatMap(({ workload }) => workloadObjects(workload, makePodShape(config, workload.service), place))
}
