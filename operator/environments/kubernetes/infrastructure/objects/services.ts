import type { ServicePort } from '../../../../translated-types.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, ownedObject, podSelector } from './place.ts'

/**
 * Returns the Services: a headless one for the ports whose callers need the address of each replica, and one
 * with an address for the others, named after the first of them. They are two objects, because a Service can
 * never change whether it has an address.
 */
export function makeServices(ingredients: Ingredients): readonly KubeObject[] {
  const { ports } = ingredients.workload
  const each = ports.filter(({ reach }) => reach === 'each')
  const any = ports.filter(({ reach = 'any' }) => reach === 'any')
  return [
    ...(each.length > 0 ? [makeService(ingredients, each, { clusterIP: 'None' })] : []),
    ...(any.length > 0 ? [makeService(ingredients, any, { type: 'ClusterIP' }, any[0]?.name)] : []),
  ]
}

function makeService(
  ingredients: Ingredients,
  ports: readonly ServicePort[],
  kindOfAddress: Readonly<Record<string, string>>,
  suffix?: string,
): KubeObject {
  const { place, workload } = ingredients
  const spec = {
    ...kindOfAddress,
    selector: podSelector(place, workload.name),
    ports: ports.map(({ name, port }) => ({ name, port, targetPort: name, protocol: 'TCP' })),
  }
  return ownedObject(ingredients, { apiVersion: 'v1', kind: 'Service', spec }, suffix)
}
