import type { PodShape } from '@tollway/crds/cluster-config.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, ownedObject, podSelector } from './place.ts'

/**
 * Limits the replicas that a drain of nodes may end at once. A single replica has no budget, which would
 * either block every drain or have no effect.
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
      // A replica that accepts no calls must not delay the drain of its node.
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    },
  })
}

/** The API server accepts `25%` as text, but a number only as a number. */
function numberOrShare(text: string): number | string {
  return text.endsWith('%') ? text : Number(text)
}
