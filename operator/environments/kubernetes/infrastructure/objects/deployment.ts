import type { PodShape } from '@tollway/crds/cluster-config.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, ownedObject, podSelector } from './place.ts'
import { makePodTemplate } from './pod-template.ts'

/**
 * Marks a Deployment whose number of replicas an autoscaler writes. The ownership of `replicas` is handed
 * over before an unmarked Deployment gets an autoscaler: an unowned `replicas` becomes 1.
 */
export const autoscaledAnnotation = 'tollway.dev/autoscaled'

/** The release of the chart whose operator applied the Deployment last. */
export const revisionAnnotation = 'tollway.dev/revision'

/** A new replica counts after this time of readiness: callers find it in DNS before an old one ends. */
const minReadySeconds = 5
const revisionHistoryLimit = 3

/**
 * Returns the Deployment. With autoscaling it has no `replicas`, which the autoscaler owns. A change starts
 * new replicas before it ends old ones, a quarter of them at a time and at least one.
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
