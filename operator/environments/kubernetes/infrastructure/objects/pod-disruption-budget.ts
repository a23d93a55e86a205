import type { PodShape } from '@tollway/crds/cluster-config.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, ownedObject, podSelector } from './place.ts'

/**
 * How many replicas a drain of nodes may take at once. None for a single replica: the budget would either
 * forbid every drain or mean nothing.
 */
export function makePodDisruptionBudget(
  ingredients: Ingredients,
  shape: Pick<PodShape, 'maxUnavailable'>,
): KubeObject | undefined {
  const { place, workload } = ingredients
  if (workload.replicas <= 1 && workload.autoscaling === undefined) return undefined
  return ownedObject(ingredients, {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    spec: {
      maxUnavailable: numberOrShare(shape.maxUnavailable),
      selector: { matchLabels: podSelector(place, workload.name) },
      // A replica that takes no calls anyway must not hold up the drain of its node.
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    },
  })
}

/** The API server takes `25%` as a text, but a number only as a number. */
function numberOrShare(text: string): number | string {
  return text.endsWith('%') ? text : Number(text)
}
