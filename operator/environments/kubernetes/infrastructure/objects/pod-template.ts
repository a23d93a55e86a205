import type { PodShape } from '@tollway/crds/cluster-config.ts'
import { objectName } from '../../../../services/cluster-names.ts'
import type { Workload } from '../../../../translated-types.ts'
import { makeContainer } from './container.ts'
import { type Ingredients, objectLabels, podSelector } from './place.ts'
import { makeVolumes } from './volumes.ts'

/** Returns the template of the pods. By default, the Pod Security profile `restricted` admits them. */
export function makePodTemplate({ workload, place }: Ingredients, shape: PodShape) {
  const { imagePullSecrets, priorityClassName, initContainers } = shape
  return {
    metadata: {
      labels: { ...shape.commonLabels, ...shape.labels, ...objectLabels(place, workload.name) },
      ...ifAny('annotations', {
        ...shape.commonAnnotations,
        ...shape.annotations,
        ...digestAnnotation(workload),
      }),
    },
    spec: {
      serviceAccountName: objectName(place.name, workload.name),
      automountServiceAccountToken: false,
      // Variables for each Service of the namespace could be mistaken for settings.
      enableServiceLinks: false,
      terminationGracePeriodSeconds: Math.ceil(workload.stopGraceMs / 1000),
      ...ifAny('securityContext', shape.podSecurityContext),
      ...(initContainers.length > 0 ? { initContainers: withSecurity(initContainers, shape) } : {}),
      containers: [makeContainer(workload, shape), ...withSecurity(shape.extraContainers, shape)],
      volumes: [...makeVolumes(workload), ...shape.extraVolumes],
      topologySpreadConstraints: spread(shape, podSelector(place, workload.name)),
      ...(imagePullSecrets.length > 0 ? { imagePullSecrets: imagePullSecrets.map(name => ({ name })) } : {}),
      ...(priorityClassName !== '' ? { priorityClassName } : {}),
      ...ifAny('nodeSelector', shape.nodeSelector),
      ...ifAny('affinity', shape.affinity),
      ...(shape.tolerations.length > 0 ? { tolerations: shape.tolerations } : {}),
    },
  }
}

/** Gives containers of the configuration the common security context, unless they have their own. */
function withSecurity(
  containers: PodShape['extraContainers'],
  { containerSecurityContext }: PodShape,
): PodShape['extraContainers'] {
  return containers.map(container => ({
    ...ifAny('securityContext', containerSecurityContext),
    ...container,
  }))
}

/** The annotation of a pod with the digest of the Secrets that it read at start. */
export const secretsAnnotation = 'tollway.dev/secrets'

function digestAnnotation({ secretsDigest }: Pick<Workload, 'secretsDigest'>) {
  return secretsDigest === undefined ? {} : { [secretsAnnotation]: secretsDigest }
}

function ifAny(name: string, value: Readonly<Record<string, unknown>>) {
  return Object.keys(value).length > 0 ? { [name]: value } : {}
}

/**
 * Spreads pods over hosts and zones if possible, unless the configuration has constraints. Constraints
 * without a selector apply to the pods of the workload.
 */
function spread(
  { topologySpreadConstraints }: PodShape,
  matchLabels: Readonly<Record<string, string>>,
): readonly unknown[] {
  const labelSelector = { matchLabels }
  if (topologySpreadConstraints.length > 0) {
    return topologySpreadConstraints.map(constraint => ({ labelSelector, ...(constraint as object) }))
  }
  return ['kubernetes.io/hostname', 'topology.kubernetes.io/zone'].map(topologyKey => ({
    maxSkew: 1,
    topologyKey,
    whenUnsatisfiable: 'ScheduleAnyway',
    labelSelector,
  }))
}
