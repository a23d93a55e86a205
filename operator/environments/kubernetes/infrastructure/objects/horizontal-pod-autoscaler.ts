import { objectName } from '../../../../services/cluster-names.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import { type Ingredients, ownedObject } from './place.ts'

/**
 * Returns the autoscaler of a workload, by its use of CPU and other metrics; none if the workload has none.
 */
export function makeHorizontalPodAutoscaler(ingredients: Ingredients): KubeObject | undefined {
  const { place, workload } = ingredients
  if (workload.autoscaling === undefined) return undefined
  const { minReplicas, maxReplicas, targetCpuPercent, metrics, behavior } = workload.autoscaling
  const cpu = { type: 'Utilization', averageUtilization: targetCpuPercent }
  return ownedObject(ingredients, {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    spec: {
      scaleTargetRef: {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        name: objectName(place.name, workload.name),
      },
      minReplicas,
      maxReplicas,
      metrics: [
        ...(targetCpuPercent > 0 ? [{ type: 'Resource', resource: { name: 'cpu', target: cpu } }] : []),
        ...metrics,
      ],
      ...(Object.keys(behavior).length > 0 && { behavior }),
    },
  })
}
