import type { PodShape } from '@tollway/crds/cluster-config.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import type { Probe, SecretFiles, Workload } from '../../../../model.ts'
import { objectName } from '../../../../workloads/cluster-names.ts'
import { objectLabels, podSelector, type WorkloadContext } from './installation.ts'

/**
 * Returns the pod template. With the default configuration, the Pod Security profile `restricted` admits the
 * pods.
 */
export function makePodTemplate({ workload, installation }: WorkloadContext, shape: PodShape) {
  const { imagePullSecrets, priorityClassName, initContainers } = shape
  return {
    metadata: {
      labels: { ...shape.commonLabels, ...shape.labels, ...objectLabels(installation, workload.name) },
      ...ifAny('annotations', {
        ...shape.commonAnnotations,
        ...shape.annotations,
        ...digestAnnotation(workload),
      }),
    },
    spec: {
      serviceAccountName: objectName(installation.name, workload.name),
      automountServiceAccountToken: false,
      // Disables the variables that Kubernetes adds for each Service, because services could take them for
      // settings.
      enableServiceLinks: false,
      terminationGracePeriodSeconds: Math.ceil(workload.stopGraceMs / 1000),
      ...ifAny('securityContext', shape.podSecurityContext),
      ...(initContainers.length > 0 ? { initContainers: withSecurity(initContainers, shape) } : {}),
      containers: [makeContainer(workload, shape), ...withSecurity(shape.extraContainers, shape)],
      volumes: [...makeVolumes(workload), ...shape.extraVolumes],
      topologySpreadConstraints: spread(shape, podSelector(installation, workload.name)),
      ...(imagePullSecrets.length > 0 ? { imagePullSecrets: imagePullSecrets.map(name => ({ name })) } : {}),
      ...(priorityClassName !== '' ? { priorityClassName } : {}),
      ...ifAny('nodeSelector', shape.nodeSelector),
      ...ifAny('affinity', shape.affinity),
      ...(shape.tolerations.length > 0 ? { tolerations: shape.tolerations } : {}),
    },
  }
}

/** Gives each container of the configuration the common security context, unless it has its own. */
function withSecurity(
  containers: PodShape['extraContainers'],
  { containerSecurityContext }: PodShape,
): PodShape['extraContainers'] {
  return containers.map(container => ({
    ...ifAny('securityContext', containerSecurityContext),
    ...container,
  }))
}

export const secretsAnnotation = `${apiGroup}/secrets`

function digestAnnotation({ secretsDigest }: Pick<Workload, 'secretsDigest'>) {
  return secretsDigest === undefined ? {} : { [secretsAnnotation]: secretsDigest }
}

function ifAny(name: string, value: Readonly<Record<string, unknown>>) {
  return Object.keys(value).length > 0 ? { [name]: value } : {}
}

/**
 * Returns the constraints of the configuration; without any, constraints that prefer to spread the pods over
 * hosts and zones. A constraint without a selector applies to the pods of the workload.
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

/** Variables whose values are fields of the running pod. */
const ownFields = {
  POD_IP: 'status.podIP',
  POD_NAME: 'metadata.name',
  POD_NAMESPACE: 'metadata.namespace',
  POD_UID: 'metadata.uid',
} as const

/**
 * The settings that identify a replica in the feed. The host infrastructure sets the same ones. The kubelet
 * fills in the values.
 */
const feedIdentity = {
  CONFIG_GRPC_XDS_NODE_ID: '$(POD_NAME)',
  CONFIG_GRPC_XDS_NODE_METADATA: 'pod:$(POD_NAME),uid:$(POD_UID),namespace:$(POD_NAMESPACE)',
} as const

/**
 * Returns the variables of the container: the fields of the pod, the workload's settings by name, and
 * `extraEnv`, which replaces settings of the same name. The fields of the pod come first, because a variable
 * can refer only to earlier ones, and nothing replaces them.
 */
export function makeEnv(
  { env, service }: Pick<Workload, 'env' | 'service'>,
  { extraEnv }: Pick<PodShape, 'extraEnv'>,
) {
  const own = Object.entries(ownFields).map(([name, fieldPath]) => {
    return { name, valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath } } }
  })
  const literal = Object.entries(env).map(([name, value]) => [name, escapeReferences(value)])
  const identity = service === 'payments' ? {} : feedIdentity
  const settings: Record<string, string> = { ...identity, ...Object.fromEntries(literal) }
  const extra = extraEnv
    .map(variable => ({ ...variable, name: `${variable['name']}` }))
    .filter(({ name }) => !(name in ownFields))
  const replaced = new Set(extra.map(({ name }) => name))
  const given = Object.entries(settings)
    .filter(([name]) => !(name in ownFields) && !replaced.has(name))
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => ({ name, value }))
  return [...own, ...given, ...extra]
}

/** Escapes `$`, so that the kubelet neither replaces `$(NAME)` in a setting nor turns `$$` into `$`. */
function escapeReferences(value: string): string {
  return value.replaceAll('$', '$$$$')
}

/** A replica must start within 60 s (period times threshold). Its readiness is probed once it has started. */
const startup = { periodSeconds: 1, timeoutSeconds: 2, failureThreshold: 60 } as const
/** A replica that is not ready gets no calls after 4 s. */
const readiness = { periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 2 } as const
/**
 * A replica is killed only after 30 s without an answer, because restarts would slow down an overloaded one
 * further.
 */
const liveness = { periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 6 } as const

export function makeContainer(workload: Workload, shape: PodShape) {
  const { name, ports, probes } = workload
  return {
    name,
    image: shape.image,
    imagePullPolicy: shape.imagePullPolicy,
    // The operator reads the settings that a replica rejects from the last lines of its log.
    terminationMessagePolicy: 'FallbackToLogsOnError',
    ports: ports.map(port => ({ name: port.name, containerPort: port.port, protocol: 'TCP' })),
    env: makeEnv(workload, shape),
    ...(Object.keys(shape.resources).length > 0 ? { resources: shape.resources } : {}),
    ...(probes === undefined
      ? {}
      : {
          // Liveness does not depend on readiness: without the feed a replica is not ready, and a restart
          // does not help.
          startupProbe: { ...httpGet(probes.alive), ...startup },
          readinessProbe: { ...httpGet(probes.ready), ...readiness },
          livenessProbe: { ...httpGet(probes.alive), ...liveness },
        }),
    ...(Object.keys(shape.containerSecurityContext).length > 0
      ? { securityContext: shape.containerSecurityContext }
      : {}),
    volumeMounts: [...makeVolumeMounts(workload), ...shape.extraVolumeMounts],
  }
}

function httpGet({ port, path }: Probe) {
  return { httpGet: { port, path, scheme: 'HTTP' } }
}

/** The only writable folder of a replica. The pod is evicted when its content exceeds the limit. */
const scratch = { name: 'tmp', path: '/tmp', sizeLimit: '256Mi' } as const
/** Only the owner and the group of the pod can read the files. */
const secretFileMode = 0o440

function makeVolumes({ secretFiles = [] }: Pick<Workload, 'secretFiles'>) {
  return [
    { name: scratch.name, emptyDir: { sizeLimit: scratch.sizeLimit } },
    ...secretFiles.map(files => ({ name: files.name, secret: secretSource(files) })),
  ]
}

/** Optional, so that a pod starts before its Secret exists; the files appear later. */
function secretSource({ secretName, keys }: SecretFiles) {
  return {
    secretName,
    optional: true,
    defaultMode: secretFileMode,
    ...(keys === undefined ? {} : { items: keys.map(key => ({ key, path: key })) }),
  }
}

function makeVolumeMounts({ secretFiles = [] }: Pick<Workload, 'secretFiles'>) {
  return [
    { name: scratch.name, mountPath: scratch.path },
    ...secretFiles.map(({ name, folder }) => ({ name, mountPath: folder, readOnly: true })),
  ]
}
