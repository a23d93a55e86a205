import type { PodShape } from '@tollway/crds/cluster-config.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import type { ServicePort, Workload } from '../../../../model.ts'
import { objectName } from '../../../../workloads/cluster-names.ts'
import type { KubeObject } from '../../api/kube-object.ts'
import {
  type Installation,
  operatorSelector,
  ownedObject,
  podSelector,
  type WorkloadContext,
} from './installation.ts'
import { makePodTemplate } from './pod-template.ts'

/**
 * Returns all objects of a workload, in the order of their creation: each object comes after those to which
 * it refers. Equal arguments yield equal objects.
 */
export function workloadObjects(
  workload: Workload,
  shape: PodShape,
  installation: Installation,
): readonly KubeObject[] {
  const context = { workload, installation }
  return [
    makeServiceAccount(context),
    makeNetworkPolicy(context),
    ...makeServices(context),
    makePodDisruptionBudget(context, shape),
    makeDeployment(context, shape),
    makeHorizontalPodAutoscaler(context),
  ]
    .filter(object => object !== undefined)
    .map(object => withMetadata(object, shape))
}

const fieldOfKind: Readonly<Record<string, keyof PodShape['objects']>> = {
  Deployment: 'deployment',
  Service: 'service',
  ServiceAccount: 'serviceAccount',
}

/**
 * Adds the labels and annotations of the configuration to an object. Where names are equal, the operator's
 * values stay.
 */
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

function makeHorizontalPodAutoscaler(context: WorkloadContext): KubeObject | undefined {
  const { installation, workload } = context
  if (workload.autoscaling === undefined) return undefined
  const { minReplicas, maxReplicas, targetCpuPercent, metrics, behavior } = workload.autoscaling
  const cpu = { type: 'Utilization', averageUtilization: targetCpuPercent }
  return ownedObject(context, {
    apiVersion: 'autoscaling/v2',
    kind: 'HorizontalPodAutoscaler',
    spec: {
      scaleTargetRef: {
        apiVersion: 'apps/v1',
        kind: 'Deployment',
        name: objectName(installation.name, workload.name),
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

/**
 * Admits every pod of the cluster to the public ports of the workload, because the operator does not know the
 * namespaces of callers and of metrics scrapers. Only the operator is admitted to the ports for the operator.
 * Egress is not restricted: the address of the Redis is in a Secret and may be anywhere.
 */
function makeNetworkPolicy(context: WorkloadContext): KubeObject {
  const { installation, workload } = context
  const portsFor = (wanted: ServicePort['callers']) =>
    workload.ports.filter(({ callers }) => callers === wanted).map(({ port }) => ({ port, protocol: 'TCP' }))
  const [forAll, forOperator] = [portsFor(undefined), portsFor('operator')]
  const operator = { podSelector: { matchLabels: operatorSelector(installation) } }
  return ownedObject(context, {
    apiVersion: 'networking.k8s.io/v1',
    kind: 'NetworkPolicy',
    spec: {
      podSelector: { matchLabels: podSelector(installation, workload.name) },
      policyTypes: ['Ingress'],
      ingress: [
        ...(forAll.length > 0 ? [{ ports: forAll }] : []),
        ...(forOperator.length > 0 ? [{ ports: forOperator, from: [operator] }] : []),
      ],
    },
  })
}

/**
 * Limits how many replicas a drain of nodes may end at once. A workload with a single replica has no budget,
 * because one would either block every drain or have no effect.
 */
function makePodDisruptionBudget(
  context: WorkloadContext,
  shape: Pick<PodShape, 'maxUnavailable'>,
): KubeObject | undefined {
  const { installation, workload } = context
  if (workload.replicas <= 1 && workload.autoscaling === undefined) return undefined
  return ownedObject(context, {
    apiVersion: 'policy/v1',
    kind: 'PodDisruptionBudget',
    spec: {
      maxUnavailable: numberOrShare(shape.maxUnavailable),
      selector: { matchLabels: podSelector(installation, workload.name) },
      // Replicas that accept no calls must not delay the drain of their node.
      unhealthyPodEvictionPolicy: 'AlwaysAllow',
    },
  })
}

/** The API server accepts `25%` only as text, and a number only as a number. */
function numberOrShare(text: string): number | string {
  return text.endsWith('%') ? text : Number(text)
}

/**
 * Returns the account of the replicas, which has no rights. It has no token either, because replicas do not
 * call the API server.
 */
function makeServiceAccount(context: WorkloadContext): KubeObject {
  return ownedObject(context, {
    apiVersion: 'v1',
    kind: 'ServiceAccount',
    automountServiceAccountToken: false,
  })
}

/**
 * Returns the Services of a workload: a headless one for the ports whose callers resolve the address of each
 * replica, and one with a single address for the others, named after the first of these. They are two
 * objects, because a Service can never gain or lose its address.
 */
function makeServices(context: WorkloadContext): readonly KubeObject[] {
  const { ports } = context.workload
  const each = ports.filter(({ reach }) => reach === 'each')
  const any = ports.filter(({ reach = 'any' }) => reach === 'any')
  return [
    ...(each.length > 0 ? [makeService(context, each, { clusterIP: 'None' })] : []),
    ...(any.length > 0 ? [makeService(context, any, { type: 'ClusterIP' }, any[0]?.name)] : []),
  ]
}

function makeService(
  context: WorkloadContext,
  ports: readonly ServicePort[],
  kindOfAddress: Readonly<Record<string, string>>,
  suffix?: string,
): KubeObject {
  const { installation, workload } = context
  const spec = {
    ...kindOfAddress,
    selector: podSelector(installation, workload.name),
    ports: ports.map(({ name, port }) => ({ name, port, targetPort: name, protocol: 'TCP' })),
  }
  return ownedObject(context, { apiVersion: 'v1', kind: 'Service', spec }, suffix)
}

/**
 * Marks a Deployment whose number of replicas an autoscaler writes. Before an unmarked Deployment gets an
 * autoscaler, `handOverReplicas` gives `replicas` another owner; a field without an owner would fall to 1.
 */
export const autoscaledAnnotation = `${apiGroup}/autoscaled`

/** The chart release whose operator last applied the Deployment. */
export const revisionAnnotation = `${apiGroup}/revision`

/**
 * A new replica counts only after this time of readiness, so that callers find it in DNS before an old one
 * ends.
 */
const minReadySeconds = 5
const revisionHistoryLimit = 3

/**
 * Returns the Deployment. With autoscaling it has no `replicas`, which the autoscaler owns. A change starts
 * new replicas before it ends old ones, a quarter of them at a time and at least one.
 */
function makeDeployment(context: WorkloadContext, shape: PodShape): KubeObject {
  const { installation, workload } = context
  const deployment = ownedObject(context, {
    apiVersion: 'apps/v1',
    kind: 'Deployment',
    spec: {
      ...(workload.autoscaling === undefined ? { replicas: workload.replicas } : {}),
      selector: { matchLabels: podSelector(installation, workload.name) },
      strategy: { type: 'RollingUpdate', rollingUpdate: { maxUnavailable: 0, maxSurge: '25%' } },
      minReadySeconds,
      revisionHistoryLimit,
      template: makePodTemplate(context, shape),
    },
  })
  const annotations = {
    ...(installation.revision === '' ? {} : { [revisionAnnotation]: installation.revision }),
    ...(workload.autoscaling === undefined ? {} : { [autoscaledAnnotation]: 'true' }),
  }
  return { ...deployment, metadata: { ...deployment.metadata, annotations } }
}
