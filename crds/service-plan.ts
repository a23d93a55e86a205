import type { JsonObject } from '@tollway/chassis/json.ts'
import Type from 'typebox'
import { type SchemaProblem, typed } from './schema.ts'

/**
 * What the configurations of all services have in common: parts of their schemas, and checks between fields.
 */

/** A label of RFC 1123: the form of a namespace's name. */
export const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
/** A label of RFC 1035, which begins with a letter: the form of a Service's name. */
export const serviceLabel = '[a-z]([-a-z0-9]*[a-z0-9])?'

const maxReplicas = 100

/** An object that the operator passes on unchanged to the API server, which alone validates it. */
const passThrough = (description: string, value: JsonObject = {}) =>
  typed<Readonly<Record<string, unknown>>>({
    type: 'object',
    default: value,
    description,
    'x-kubernetes-preserve-unknown-fields': true,
  })
const passThroughList = (description: string) =>
  Type.Array(typed<unknown>({}), { default: [], maxItems: 64, description })
const passThroughObjects = (description: string) =>
  Type.Array(
    typed<Readonly<Record<string, unknown>>>({
      type: 'object',
      'x-kubernetes-preserve-unknown-fields': true,
    }),
    { default: [], maxItems: 64, description },
  )
/**
 * The environment variables of a container. As in the API server, a value is a text: a number needs quotes.
 */
const variables = (description: string) =>
  Type.Array(
    typed<Readonly<Record<string, unknown>>>({
      type: 'object',
      required: ['name'],
      properties: {
        name: { type: 'string', minLength: 1, maxLength: 1024, description: 'The name of the variable.' },
        value: { type: 'string', maxLength: 131_072, description: 'The value. Write a number in quotes.' },
        valueFrom: {
          type: 'object',
          'x-kubernetes-preserve-unknown-fields': true,
          description: 'The source of the value: an entry of a Secret or ConfigMap, or a field of the pod.',
        },
      },
    }),
    { default: [], maxItems: 64, description },
  )
const tolerations = () => {
  const part = (description: string) => ({ type: 'string', maxLength: 512, description }) as const
  return Type.Array(
    typed<Readonly<Record<string, unknown>>>({
      type: 'object',
      properties: {
        key: part('The key of the taint.'),
        operator: part('The comparison, such as Equal or Exists.'),
        value: part('The value of the taint. Write a number in quotes.'),
        effect: part('The effect of the taint. Empty means every effect.'),
        tolerationSeconds: { type: 'integer', description: 'The seconds for which a pod stays on the node.' },
      },
    }),
    { default: [], maxItems: 64, description: 'The tolerations of the pods.' },
  )
}
const texts = (description: string) =>
  typed<Readonly<Record<string, string>>>({
    type: 'object',
    default: {},
    maxProperties: 256,
    description,
    additionalProperties: { type: 'string', maxLength: 8192 },
  })

export const portSchema = (number: number, description: string) =>
  Type.Integer({ minimum: 1, maximum: 65_535, default: number, description })

export const replicas = () =>
  Type.Integer({
    minimum: 1,
    maximum: maxReplicas,
    default: 2,
    description: 'The number of pods. With autoscaling, it is the initial number.',
  })

export const autoscaling = () =>
  Type.Object(
    {
      enabled: Type.Boolean({
        default: false,
        description: 'Whether a HorizontalPodAutoscaler sets the number of pods.',
      }),
      minReplicas: Type.Integer({
        minimum: 1,
        maximum: maxReplicas,
        default: 2,
        description: 'The minimum number of pods.',
      }),
      maxReplicas: Type.Integer({
        minimum: 1,
        maximum: maxReplicas,
        default: 10,
        description: 'The maximum number of pods.',
      }),
      targetCpuPercent: Type.Integer({
        minimum: 0,
        maximum: 1000,
        default: 70,
        description:
          'The average use of CPU of the pods, as a percentage of their request. 0 disables this metric.',
      }),
      metrics: passThroughObjects('Additional metrics of the HorizontalPodAutoscaler (autoscaling/v2).'),
      behavior: passThrough(
        'The behavior of the HorizontalPodAutoscaler, which limits the rate at which the number of pods changes.',
      ),
    },
    { default: {}, description: 'The HorizontalPodAutoscaler of the service.' },
  )

/** The user id and group id of the images' processes. */
const uid = 65_532

/** The default security context of pods, which satisfies the Pod Security profile `restricted`. */
export const podSecurityContext = () =>
  passThrough(
    'The securityContext of every pod: operators, services, the bundled Redis, and the hook. OpenShift sets ' +
      'the user and the groups; omit them there.',
    {
      runAsNonRoot: true,
      runAsUser: uid,
      runAsGroup: uid,
      // Files of Secrets belong to this group, and only its members may read them.
      fsGroup: uid,
      fsGroupChangePolicy: 'OnRootMismatch',
      seccompProfile: { type: 'RuntimeDefault' },
    },
  )

export const containerSecurityContext = () =>
  passThrough('The securityContext of every container.', {
    allowPrivilegeEscalation: false,
    readOnlyRootFilesystem: true,
    capabilities: { drop: ['ALL'] },
  })

export const settingsOfService = () =>
  texts(
    'Settings of the service as environment variables. They take precedence over the values of the operator.',
  )

/**
 * The sources that additional volumes may have. Other sources could give access to the node or to other
 * systems.
 */
const volumeSources = ['configMap', 'emptyDir', 'persistentVolumeClaim', 'secret'] as const

const extraVolumes = () => {
  const source = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true } as const
  return Type.Array(
    typed<Readonly<Record<string, unknown>>>({
      type: 'object',
      required: ['name'],
      properties: {
        name: { type: 'string', minLength: 1, maxLength: 63, description: 'The name of the volume.' },
        ...Object.fromEntries(
          volumeSources.map(name => [name, { ...source, description: `The source of the volume: ${name}.` }]),
        ),
      },
    }),
    {
      default: [],
      maxItems: 64,
      description: `Additional volumes of the pods. Their source is one of ${volumeSources.join(', ')}.`,
    },
  )
}

export const commonLabels = () =>
  texts('Labels of every object, in addition to the labels that the chart and the operator set.')
export const commonAnnotations = () => texts('Annotations of every object.')

export const objectMetadata = () => {
  const metadata = (objects: string) =>
    Type.Object(
      { annotations: texts(`Annotations of the ${objects}.`), labels: texts(`Labels of the ${objects}.`) },
      { default: {}, description: `The metadata of the ${objects}.` },
    )
  return Type.Object(
    {
      deployment: metadata('Deployment'),
      service: metadata('Services'),
      serviceAccount: metadata('ServiceAccount'),
    },
    {
      default: {},
      description:
        'Labels and annotations of the objects of the service, in addition to commonLabels and commonAnnotations.',
    },
  )
}

/** Returns the schema of the fields of a service's pods that exist only in a cluster. */
export function podShape(service: string) {
  return Type.Object(
    {
      image: Type.String({
        default: `tollway/${service}:dev`,
        minLength: 1,
        maxLength: 512,
        description: 'The image of the service, with its tag or digest.',
      }),
      imagePullPolicy: Type.Enum(['Always', 'IfNotPresent', 'Never'], {
        type: 'string',
        default: 'IfNotPresent',
        description: 'The policy by which the kubelet pulls the image.',
      }),
      imagePullSecrets: Type.Array(Type.String({ minLength: 1, maxLength: 253 }), {
        default: [],
        maxItems: 8,
        description: 'The names of the Secrets with the credentials of the image registry.',
      }),
      resources: passThrough(
        'The resource requests and limits of the container. A CPU limit is not recommended, because it delays answers.',
      ),
      nodeSelector: texts('The labels that a node must have.'),
      tolerations: tolerations(),
      affinity: passThrough('The affinity of the pods.'),
      topologySpreadConstraints: passThroughList(
        'The topology spread constraints of the pods. By default, pods spread over hosts and zones if possible.',
      ),
      priorityClassName: Type.String({
        default: '',
        maxLength: 253,
        description: 'The priority class of the pods.',
      }),
      annotations: texts('Annotations of the pods.'),
      labels: texts('Labels of the pods, in addition to the labels that the operator sets.'),
      extraEnv: variables(
        'Additional environment variables of the container, also from Secrets and ConfigMaps.',
      ),
      extraVolumes: extraVolumes(),
      extraVolumeMounts: passThroughObjects('Additional volume mounts of the container.'),
      initContainers: passThroughObjects('Containers that run before the container of the service.'),
      extraContainers: passThroughObjects('Additional containers of the pods.'),
      maxUnavailable: Type.String({
        default: '1',
        pattern: '^([0-9]{1,4}|[0-9]{1,2}%|100%)$',
        maxLength: 4,
        description:
          'The maxUnavailable of the PodDisruptionBudget: a number of pods, or a percentage such as 25%.',
      }),
    },
    { default: {}, description: 'The pods of the service.' },
  )
}

export const secretName = () =>
  Type.String({ default: '', maxLength: 253, description: 'The name of the Secret. Empty means no Secret.' })

export const secretKey = (key: string, description: string) =>
  Type.Object(
    {
      name: secretName(),
      key: Type.String({
        default: key,
        minLength: 1,
        maxLength: 253,
        description: 'The key of the entry in the Secret.',
      }),
    },
    { default: {}, description },
  )

/** The fields of a service's configuration between which `checkService` finds contradictions. */
interface ServicePlan {
  readonly enabled: boolean
  readonly replicas: number
  readonly autoscaling: {
    readonly enabled: boolean
    readonly minReplicas: number
    readonly maxReplicas: number
    readonly targetCpuPercent: number
    readonly metrics: readonly unknown[]
  }
  readonly pods: { readonly maxUnavailable: string }
}

interface ServiceCheck {
  /** The field of the service in the configuration: `rateLimit`. */
  readonly field: string
  /**
   * The storage of the service's state, and the name of the field that configures it. Undefined if the pods
   * always share their storage.
   */
  readonly state?: {
    readonly field: string
    readonly type: 'memory' | 'redis'
    readonly urlSecret: { readonly name: string }
  }
  /** What goes wrong when several pods share no storage, for the message. */
  readonly alone?: string
}

/**
 * Returns the contradictions between fields of a service's configuration; none for a service that is not
 * enabled.
 */
export function checkService(
  plan: ServicePlan,
  { field, state, alone }: ServiceCheck,
): readonly SchemaProblem[] {
  const problems: SchemaProblem[] = []
  const say = (path: string, message: string) => problems.push({ path: `${field}.${path}`, message })
  const { enabled, replicas: count, autoscaling: scaling, pods } = plan
  if (!enabled) return problems
  if (scaling.enabled && scaling.minReplicas > scaling.maxReplicas) {
    const { minReplicas, maxReplicas: most } = scaling
    say('autoscaling.minReplicas', `${minReplicas} must be at most maxReplicas, ${most}`)
  }
  if (scaling.enabled && scaling.targetCpuPercent === 0 && scaling.metrics.length === 0) {
    say('autoscaling.metrics', 'at least one metric is required while targetCpuPercent is 0')
  }
  if (state?.type === 'redis' && state.urlSecret.name === '') {
    say(`${state.field}.urlSecret.name`, 'is required: the name of the Secret with the address of Redis')
  }
  if (state?.type === 'memory' && (scaling.enabled || count > 1)) {
    const many = scaling.enabled ? 'autoscaling' : `${count} replicas`
    const advice = scaling.enabled ? 'use redis' : `use redis, or set ${field}.replicas to 1`
    say(`${state.field}.type`, `"memory" is not allowed with ${many}, because ${alone}; ${advice}`)
  }
  if (pods.maxUnavailable === '0') {
    say(
      'pods.maxUnavailable',
      '"0" is not allowed, because it prevents the drain of nodes; expected at least 1',
    )
  }
  return problems
}
