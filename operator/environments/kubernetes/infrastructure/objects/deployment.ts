import type { PodShape } from '@tollway/crds/cluster-config.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, ownedObject, podSelector } from './place.ts'
import { makePodTemplate } from './pod-template.ts'

/**
 * Marks a Deployment whose number of replicas an autoscaler writes. Without the mark on a Deployment that
 * shall scale by itself, the ownership of `replicas` is given up first: an unowned `replicas` becomes 1.
 */
export const autoscaledAnnotation = 'tollway.dev/autoscaled'

/** The release of the chart whose operator applied the Deployment last. */
export const revisionAnnotation = 'tollway.dev/revision'

/** A new replica counts after this time of readiness: callers find it in DNS before an old one ends. */
const minReadySeconds = 5
const revisionHistoryLimit = 3

/**
 * The replicas. With autoscaling it has no `replicas`, for that is then the autoscaler's. A change brings up
 * new replicas before it takes old ones away; a quarter of a few is one.
 */
export function makeDeployment(ingredients: Ingredients, shape: PodShape): KubeObject {
  const { place, workload } = ingredients
  const deployment = ownedObject(ingredients, {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    spec: {
      ...(workload.autoscaling === undefined ? { replicas: workload.replicas } : {}),
      selector: { matchLabels: podSelector(place, workload.name) },
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: '25%' } },
      minReadySeconds,
      revisionHistoryLimit,
      template: makePodTemplate(ingredients, shape),
    },
  })
  const annotations = {
    ...(place.revision === '' ? {} : { [revisionAnnotation]: place.revision }),
    ...(workload.autoscaling === undefined ? {} : { [autoscaledAnnotation]: 'true' }),
  }
  return { ...deployment, metadata: { ...deployment.metadata, annotations } }
}
