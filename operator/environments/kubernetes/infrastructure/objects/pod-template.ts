import type { PodShape } from '@tollway/crds/cluster-config.ts'
import { apiGroup } from '@tollway/crds/resource-kind.ts'
import type { Probe, SecretFiles, Workload } from '../../../../model.ts'
import { objectName } from '../../../../workloads/cluster-names.ts'
import { objectLabels, podSelector, type WorkloadContext } from './installation.ts'

/** Returns the template of the pods. By default, the Pod Security profile `restricted` admits them. */
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
      // Variables for each Service of the namespace could be mistaken for settings.
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
export const secretsAnnotation = `${apiGroup}/secrets`

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

/** Fields of the pod that exist only at run time. */
const ownFields = {
  POD_IP: 'status.podIP',
  POD_NAME: 'metadata.name',
  POD_NAMESPACE: 'metadata.namespace',
  POD_UID: 'metadata.uid',
} as const

/**
 * The identity of a replica in the feed, the same variables as those of the host provider. The kubelet sets
 * their values.
 */
const feedIdentity = {
  CONFIG_GRPC_XDS_NODE_ID: '$(POD_NAME)',
  CONFIG_GRPC_XDS_NODE_METADATA: 'pod:$(POD_NAME),uid:$(POD_UID),namespace:$(POD_NAMESPACE)',
} as const

/**
 * Returns the workload's settings, by their names, and the variables of `extraEnv`, which replace settings of
 * the same name. The pod's own fields are before them, because a variable can only be cited after it; neither
 * settings nor `extraEnv` can replace these.
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

/** Escapes a setting, so that the kubelet does not replace `$(NAME)` in it, nor `$$` by `$`. */
function escapeReferences(value: string): string {
  return value.replaceAll('$', '$$$$')
}

/**
 * A replica has a minute to start: the product of period and threshold. Readiness is not probed before.
 */
const startup = { periodSeconds: 1, timeoutSeconds: 2, failureThreshold: 60 } as const
/** A replica that is not ready receives no calls after 4 s. */
const readiness = { periodSeconds: 2, timeoutSeconds: 2, failureThreshold: 2 } as const
/** A replica is killed only after 30 s of silence, because a restart would make a slow one slower. */
const liveness = { periodSeconds: 5, timeoutSeconds: 3, failureThreshold: 6 } as const

/** The container of the service in a pod, named after the workload. */
export function makeContainer(workload: Workload, shape: PodShape) {
  const { name, ports, probes } = workload
  return {
    name,
    image: shape.image,
    imagePullPolicy: shape.imagePullPolicy,
    // The operator reports the last lines of a replica that rejects its settings.
    terminationMessagePolicy: 'FallbackToLogsOnError',
    ports: ports.map(port => ({ name: port.name, containerPort: port.port, protocol: 'TCP' })),
    env: makeEnv(workload, shape),
    ...(Object.keys(shape.resources).length > 0 ? { resources: shape.resources } : {}),
    ...(probes === undefined
      ? {}
      : {
          // A replica is not ready while the feed is unreachable, which a restart does not solve.
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

/** The only writable folder of a replica, and the size at which the pod is evicted. */
const scratch = { name: 'tmp', path: '/tmp', sizeLimit: '256Mi' } as const
/** The file mode: only the owner and the group of the pod can read. */
const secretFileMode = 0o440

function makeVolumes({ secretFiles = [] }: Pick<Workload, 'secretFiles'>) {
  return [
    { name: scratch.name, emptyDir: { sizeLimit: scratch.sizeLimit } },
    ...secretFiles.map(files => ({ name: files.name, secret: secretSource(files) })),
  ]
}

/** The pod starts before its Secret exists; the files appear later. */
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
