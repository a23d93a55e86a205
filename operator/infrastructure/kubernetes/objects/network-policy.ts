import type { KubeObject } from '../../../kube/kube-object.ts'
import { type Ingredients, ownedObject, podSelector } from './place.ts'

/**
 * Whoever is in the cluster may call the ports of the workload, and no others: callers are in namespaces that
 * the operator does not know, and who scrapes the metrics too. What the replicas may call is left open, for
 * the address of their Redis stands in a Secret and may be anywhere.
 */
export function makeNetworkPolicy(ingredients: Ingredients): KubeObject {
  const { place, workload } = ingredients
  const ports = workload.ports.map(({ port }) => ({ port, protocol: 'TCP' }))
  return ownedObject(ingredients, {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    spec: {
      podSelector: { matchLabels: podSelector(place, workload.name) },
      policyTypes: ['Ingress'],
      ingress: ports.length > 0 ? [{ ports }] : [],
    },
  })
}
