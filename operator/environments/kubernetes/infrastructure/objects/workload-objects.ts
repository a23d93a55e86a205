import type { PodShape } from '@tollway/crds/cluster-config.ts'
import type { Workload } from '../../../../translated-types.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { makeDeployment } from './deployment.ts'
import { makeHorizontalPodAutoscaler } from './horizontal-pod-autoscaler.ts'
import { makeNetworkPolicy } from './network-policy.ts'
import type { Place } from './place.ts'
import { makePodDisruptionBudget } from './pod-disruption-budget.ts'
import { makeServiceAccount } from './service-account.ts'
import { makeServices } from './services.ts'

/**
 * Returns all objects of a workload, in the order of their creation: an object follows those to which it
 * refers. Equal input has an equal result.
 */
export function workloadObjects(workload: Workload, shape: PodShape, place: Place): readonly KubeObject[] {
  const ingredients = { workload, place }
  return [
    makeServiceAccount(ingredients),
    makeNetworkPolicy(ingredients),
    ...makeServices(ingredients),
    makePodDisruptionBudget(ingredients, shape),
    makeDeployment(ingredients, shape),
    makeHorizontalPodAutoscaler(ingredients),
  ]
    .filter(object => object !== undefined)
    .map(object => withMetadata(object, shape))
}

const fieldOfKind: Readonly<Record<string, keyof PodShape['objects']>> = {
  Deployment: 'deployment',
  Service: 'service',
  ServiceAccount: 'serviceAccount',
}

/** Adds the labels and annotations of the configuration; those of the operator take precedence. */
function withMetadata(
  object: KubeObject,
  { commonLabels, commonAnnotations, objects }: PodShape,
): KubeObject {
  const field = fieldOfKind[object.kind ?? '']
  const { labels, annotations } = field === undefined ? {} : objects[field]
  const allAnnotations = { ...commonAnnotations, ...annotations, ...object.metadata.annotations }
  return {
    ...object,
    metadata: {
      ...object.metadata,
      labels: { ...commonLabels, ...labels, ...object.metadata.labels },
      ...(Object.keys(allAnnotations).length > 0 && { annotations: allAnnotations }),
    },
  }
}
