import Type, { type Static } from 'typebox'
import { describeFound } from './describe.ts'
import { type Problem, type Schema, typed } from './schema.ts'
import { type Validated, validate } from './validate.ts'

/**
 * How the operator runs in a cluster: its configuration file there, and with the same names the values of the
 * chart. From this schema come the types, the judgement of the file, and the chart's values.schema.json.
 */
export type ClusterConfig = DeepReadonly<Static<typeof config>>
/** How the rate limit service runs. */
export type RateLimitPlan = ClusterConfig['rateLimit']
/** What a cluster decides of the pods of a service, and no service knows of. */
export type PodShape = RateLimitPlan['pods']

type DeepReadonly<Value> = Value extends readonly (infer Item)[]
  ? readonly DeepReadonly<Item>[]
  : Value extends object
    ? { readonly [Name in keyof Value]: DeepReadonly<Value[Name]> }
    : Value

/** Of RFC 1123, as namespaces have them, and of RFC 1035, as Services do: these begin with a letter. */
const label = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'
const serviceLabel = '[a-z]([-a-z0-9]*[a-z0-9])?'
const maxReplicas = 100

/** What the operator hands on to the API server, which judges it. */
const handedOn = (description: string) =>
  typed<Readonly<Record<string, unknown>>>({
    type: 'object',
    default: {},
    description,
    'x-kubernetes-preserve-unknown-fields': true,
  })
const handedOnList = (description: string) =>
  Type.Array(typed<unknown>({}), { default: [], maxItems: 64, description })
const texts = (description: string) =>
  typed<Readonly<Record<string, string>>>({
    type: 'object',
    default: {},
    maxProperties: 256,
    description,
    additionalProperties: { type: 'string', maxLength: 8192 },
  })

const port = (number: number, description: string) =>
  Type.Integer({ minimum: 1, maximum: 65_535, default: number, description })

const namespace = () => Type.String({ minLength: 1, maxLength: 63, pattern: `^${label}$` })

function podShape(service: string) {
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
        description: 'When the kubelet fetches the image.',
      }),
      imagePullSecrets: Type.Array(Type.String({ minLength: 1, maxLength: 253 }), {
        default: [],
        maxItems: 8,
        description: 'Names of the Secrets by which the image may be fetched.',
      }),
      resources: handedOn(
        'Requests and limits of the container. A limit of CPU makes answers late: better none.',
      ),
      nodeSelector: handedOn('Labels that a node must have.'),
      tolerations: handedOnList('Taints of nodes that the pods bear.'),
      affinity: handedOn('Where pods would rather, or would rather not, be.'),
      topologySpreadConstraints: handedOnList(
        'How the pods spread. Left empty they spread over hosts and zones where they can.',
      ),
      priorityClassName: Type.String({
        default: '',
        maxLength: 253,
        description: 'The priority of the pods.',
      }),
      annotations: texts('Annotations of the pods.'),
      labels: texts('Labels of the pods, beside those of the operator.'),
      maxUnavailable: Type.String({
        default: '1',
        pattern: '^([0-9]{1,4}|[0-9]{1,2}%|100%)$',
        maxLength: 4,
        description: 'How many pods a drain of nodes may take at once: a number, or a share such as 25%.',
      }),
    },
    { default: {}, description: 'What a cluster decides of the pods.' },
  )
}

const secretKey = (key: string, description: string) =>
  Type.Object(
    {
      name: Type.String({
        default: '',
        maxLength: 253,
        description: 'The name of the Secret; empty for none.',
      }),
      key: Type.String({ default: key, minLength: 1, maxLength: 253, description: 'The entry in it.' }),
    },
    { default: {}, description },
  )

const rateLimit = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'Whether the service runs at all.' }),
    replicas: Type.Integer({
      minimum: 1,
      maximum: maxReplicas,
      default: 2,
      description: 'How many pods; with autoscaling, how many at the beginning.',
    }),
    autoscaling: Type.Object(
      {
        enabled: Type.Boolean({ default: false, description: 'Whether their number follows the load.' }),
        minReplicas: Type.Integer({
          minimum: 1,
          maximum: maxReplicas,
          default: 2,
          description: 'The fewest.',
        }),
        maxReplicas: Type.Integer({
          minimum: 1,
          maximum: maxReplicas,
          default: 10,
          description: 'The most.',
        }),
        targetCpuPercent: Type.Integer({
          minimum: 1,
          maximum: 1000,
          default: 70,
          description: 'Of the CPU that a pod asks for, on average.',
        }),
      },
      { default: {}, description: 'More and fewer pods as the load asks for.' },
    ),
    backend: Type.Object(
      {
        type: Type.Enum(['redis', 'memory'], {
          type: 'string',
          default: 'redis',
          description: 'Where hits are counted. Memory is for one pod alone.',
        }),
        urlSecret: secretKey('url', "A Secret of the operator's namespace with the address of the Redis."),
      },
      { default: {}, description: 'The counters.' },
    ),
    env: texts("Settings of the service by their names; they hold over the operator's."),
    grpcPort: port(8081, 'The port of gRPC.'),
    httpPort: port(8080, 'The port of /json and /healthcheck.'),
    metricsPort: port(9090, 'The port of the metrics of Prometheus.'),
    pods: podShape('ratelimit'),
  },
  { default: {}, description: 'The rate limit service.' },
)

const config = Type.Object({
  name: Type.String({
    default: 'tollway',
    minLength: 1,
    maxLength: 40,
    pattern: `^${serviceLabel}$`,
    description: 'The name of the installation, with which the names of all that it makes begin.',
  }),
  logLevel: Type.Enum(['error', 'warn', 'info', 'debug'], {
    type: 'string',
    default: 'info',
    description: 'What is logged, by the operator and by what it runs.',
  }),
  watchNamespaces: Type.Array(namespace(), {
    default: [],
    maxItems: 100,
    description: 'The namespaces whose resources count. Empty for all of them.',
  }),
  operatorPort: port(8000, 'The port of health, metrics and status.'),
  feedPort: port(18_000, 'The port of the feed.'),
  lease: Type.Object(
    {
      durationSeconds: Type.Integer({
        minimum: 2,
        maximum: 600,
        default: 15,
        description: 'How long a leader that is not heard of stays leader.',
      }),
      renewDeadlineSeconds: Type.Integer({
        minimum: 1,
        maximum: 600,
        default: 10,
        description: 'After how long without a renewal a leader stops by itself.',
      }),
      retrySeconds: Type.Integer({
        minimum: 1,
        maximum: 60,
        default: 3,
        description: 'Between two looks at the lease.',
      }),
    },
    { default: {}, description: 'How one of several operators becomes the one that writes.' },
  ),
  domainGrants: Type.Array(
    Type.Object(
      {
        domain: Type.String({ minLength: 1, maxLength: 253, description: 'The domain.' }),
        namespaces: Type.Array(namespace(), {
          maxItems: 100,
          description: 'The only namespaces whose resources may have it.',
        }),
      },
      { description: 'For whom a domain is kept.' },
    ),
    {
      default: [],
      maxItems: 1000,
      description: 'Domains that only some namespaces may have. Any other belongs to its oldest resource.',
    },
  ),
  rateLimit,
})

/** For the documentation and the chart. */
export const clusterConfigSchema: Schema = config

/** The configuration with its defaults, or every problem that it has, each with its field. */
export function validateClusterConfig(found: unknown): Validated<ClusterConfig> {
  const judged = validate(clusterConfigSchema, found)
  if ('problems' in judged) return judged
  const value = judged.value as ClusterConfig
  const problems = betweenFields(value)
  return problems.length > 0 ? { problems } : { value }
}

function betweenFields({ lease, rateLimit }: ClusterConfig): readonly Problem[] {
  const problems: Problem[] = []
  const say = (path: string, message: string) => problems.push({ path, message })
  if (lease.renewDeadlineSeconds >= lease.durationSeconds) {
    const found = describeFound(lease.renewDeadlineSeconds)
    say(
      'lease.renewDeadlineSeconds',
      `${found} must be below lease.durationSeconds, ${lease.durationSeconds}`,
    )
  }
  if (lease.retrySeconds >= lease.renewDeadlineSeconds) {
    const found = describeFound(lease.retrySeconds)
    say(
      'lease.retrySeconds',
      `${found} must be below lease.renewDeadlineSeconds, ${lease.renewDeadlineSeconds}`,
    )
  }
  const { enabled, backend, replicas, autoscaling, pods } = rateLimit
  if (!enabled) return problems
  const { minReplicas, maxReplicas: most } = autoscaling
  if (autoscaling.enabled && minReplicas > most) {
    say('rateLimit.autoscaling.minReplicas', `${minReplicas} must be at most maxReplicas, ${most}`)
  }
  if (backend.type === 'redis' && backend.urlSecret.name === '') {
    say('rateLimit.backend.urlSecret.name', 'the Secret with the address of the Redis must be named')
  }
  if (backend.type === 'memory' && (autoscaling.enabled || replicas > 1)) {
    const many = autoscaling.enabled ? 'autoscaling' : `${replicas} replicas`
    say('rateLimit.backend.type', `"memory" is not for ${many}: each pod would count for itself; take redis`)
  }
  if (pods.maxUnavailable === '0') {
    say('rateLimit.pods.maxUnavailable', '"0" would let no node be drained; take at least 1')
  }
  return problems
}
