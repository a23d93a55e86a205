import type { ServicePort } from '../../../../translated-types.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, operatorSelector, ownedObject, podSelector } from './place.ts'

/**
 * Lets every pod of the cluster call the public ports of the workload: the operator does not know the
 * namespaces of callers and of what scrapes the metrics. Only the operator may call the ports for the
 * operator. Egress is not restricted, because the address of the Redis is in a Secret and may be anywhere.
 */
export function makeNetworkPolicy(ingredients: Ingredients): KubeObject {
  const { place, workload } = ingredients
  const portsFor = (wanted: ServicePort['callers']) =>
    workload.ports.filter(({ callers }) => callers === wanted).map(({ port }) => ({ port, protocol: 'TCP' }))
  const [forAll, forOperator] = [portsFor(undefined), portsFor('operator')]
  const operator = { podSelector: { matchLabels: operatorSelector(place) } }
  return ownedObject(ingredients, {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    spec: {
      podSelector: { matchLabels: podSelector(place, workload.name) },
      policyTypes: ['Ingress'],
      ingress: [
        ...(forAll.length > 0 ? [{ ports: forAll }] : []),
        ...(forOperator.length > 0 ? [{ ports: forOperator, from: [operator] }] : []),
      ],
    },
  })
}
