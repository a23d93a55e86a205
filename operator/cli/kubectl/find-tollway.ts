import { isObject } from '@tollway/chassis/is-object.ts'
import type { KubeObject } from '../../environments/kubernetes/api/kube-object.ts'
import { podResource } from '../../environments/kubernetes/infrastructure/kinds.ts'
import { labelNames } from '../../environments/kubernetes/infrastructure/objects/installation.ts'
import type { Cluster } from './open-cluster.ts'

const operatorName = 'tollway-operator'

export interface TollwayPod {
  readonly name: string
  readonly namespace: string
  /** `operator`, `ratelimit`, `broker` or `payments`. */
  readonly component: string
  readonly isReady: boolean
  readonly object: KubeObject
}

/**
 * Resolves with the pods of the operators, ready ones first.
 *
 * @param namespace undefined for all namespaces
 * @throws Error if there is no pod, or a right is missing
 */
export async function findOperatorPods(
  cluster: Pick<Cluster, 'listAll'>,
  namespace: string | undefined,
): Promise<readonly TollwayPod[]> {
  const labelSelector = `${labelNames.name}=${operatorName}`
  const pods = (await cluster.listAll(podResource, { namespace, labelSelector })).map(toPod)
  if (pods.length === 0) {
    const where = namespace === undefined ? 'no namespace' : `the namespace ${namespace} does not have a pod`
    const pod = namespace === undefined ? ' has a pod' : ''
    throw new Error(`found no operator of Tollway: ${where}${pod} with the label ${labelSelector}`)
  }
  return pods.toSorted((a, b) => Number(b.isReady) - Number(a.isReady))
}

/**
 * Resolves with the ready pods of a service.
 *
 * @param namespace undefined for the namespace of the operator
 * @throws Error if no pod is ready, or a right is missing
 */
export async function findServicePods(
  cluster: Pick<Cluster, 'listAll'>,
  service: 'broker' | 'payments',
  namespace: string | undefined,
): Promise<readonly [TollwayPod, ...TollwayPod[]]> {
  const where = namespace ?? (await findOperatorPods(cluster, undefined))[0]?.namespace
  const labelSelector = `${labelNames.name}=${service},${labelNames.partOf}=tollway`
  const pods = (await cluster.listAll(podResource, { namespace: where, labelSelector })).map(toPod)
  const isServing = ({ isReady, object }: TollwayPod) =>
    isReady && object.metadata.deletionTimestamp === undefined
  const [first, ...others] = pods.filter(isServing)
  if (first !== undefined) return [first, ...others]
  const cause = pods.length === 0 ? 'no pod has' : `none is ready of ${pods.length} with`
  throw new Error(
    `found no ready pod of ${service} in the namespace ${where}: ${cause} the labels ${labelSelector}`,
  )
}

export function toPod(object: KubeObject): TollwayPod {
  const { name, namespace = '', labels = {} } = object.metadata
  const status = isObject(object['status']) ? object['status'] : {}
  const conditions = Array.isArray(status['conditions']) ? status['conditions'] : []
  const isReady = conditions.some(one => isObject(one) && one['type'] === 'Ready' && one['status'] === 'True')
  const component =
    labels[labelNames.component] ?? (labels[labelNames.name] === operatorName ? 'operator' : '')
  return { name, namespace, component, isReady, object }
}

export function listContainers({ object }: Pick<TollwayPod, 'object'>) {
  const spec = isObject(object['spec']) ? object['spec'] : {}
  const containers = Array.isArray(spec['containers']) ? spec['containers'].filter(isObject) : []
  return containers.map(({ name, image }) => ({ name: `${name}`, image: `${image}` }))
}

/** Returns the path through the API server, which requires the right to get pods/proxy. */
export function pagePath({ name, namespace }: TollwayPod, port: number, page: string): string {
  return `/api/v1/namespaces/${namespace}/pods/${name}:${port}/proxy${page}`
}

function findPort({ object }: Pick<TollwayPod, 'object'>, name: string, fallback: number): number {
  const spec = isObject(object['spec']) ? object['spec'] : {}
  const containers = Array.isArray(spec['containers']) ? spec['containers'] : []
  const ports = containers.flatMap(one => (isObject(one) && Array.isArray(one['ports']) ? one['ports'] : []))
  const found = ports.find(one => isObject(one) && one['name'] === name)?.['containerPort']
  return typeof found === 'number' ? found : fallback
}

/** 8000 is the default of the chart. */
export const operatorPort = (pod: Pick<TollwayPod, 'object'>) => findPort(pod, 'http', 8000)
