import { type ApiResource, coreResource, type KubeObject } from '../api/kube-object.ts'

/** The kinds of a workload's objects, in the order of creation. Deletion has the reverse order. */
export const kinds = {
  ServiceAccount: coreResource('serviceaccounts'),
  NetworkPolicy: { group: 'networking.k8s.io', version: 'v1', plural: 'networkpolicies', namespaced: true },
  Service: coreResource('services'),
  PodDisruptionBudget: { group: 'policy', version: 'v1', plural: 'poddisruptionbudgets', namespaced: true },
  Deployment: { group: 'apps', version: 'v1', plural: 'deployments', namespaced: true },
  HorizontalPodAutoscaler: {
    group: 'autoscaling',
    version: 'v2',
    plural: 'horizontalpodautoscalers',
    namespaced: true,
  },
} as const satisfies Readonly<Record<string, ApiResource>>

export type WorkloadObjectKind = keyof typeof kinds

export const kindNames = Object.keys(kinds) as readonly WorkloadObjectKind[]

export const podResource: ApiResource = coreResource('pods')

/** @throws Error if the object's kind is not one of `kinds` */
export function requireKind({ kind, metadata }: KubeObject): WorkloadObjectKind {
  const found = kindNames.find(name => name === kind)
  if (found === undefined) throw new Error(`${metadata.name}: no workload has objects of the kind ${kind}`)
  return found
}
