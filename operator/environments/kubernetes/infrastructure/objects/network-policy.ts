import type { ServicePort } from '../../../../ir.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, operatorSelector, ownedObject, podSelector } from './place.ts'

/**
 * Whoever is in the cluster may call the ports of the workload, and no others: callers are in namespaces that
 * the operator does not know, and who scrapes the metrics too. Only the operator calls those that are for it.
 * What the replicas may call is left open, for the address of their Redis stands in a Secret and may be
 * anywhere.
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
