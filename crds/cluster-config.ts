import Type, { type Static } from 'typebox'
import { describeFound } from './describe.ts'
import type { DeepReadonly, Schema, SchemaProblem } from './schema.ts'
import {
  autoscaling,
  checkService,
  commonAnnotations,
  commonLabels,
  containerSecurityContext,
  label,
  objectMetadata,
  podSecurityContext,
  podShape,
  portSchema,
  replicas,
  secretKey,
  secretName,
  serviceLabel,
  settingsOfService,
} from './service-plan.ts'
import { type Validated, validateValue } from './validate.ts'

/**
 * The configuration file of an operator in a cluster, with the names of the chart's values. The schema
 * `config` gives the types, the validation, the documentation and the chart's values.schema.json.
 */
export type ClusterConfig = DeepReadonly<Static<typeof config>>
type RateLimitPlan = ClusterConfig['rateLimit']
type BrokerPlan = ClusterConfig['broker']
type PaymentsPlan = ClusterConfig['payments']
/** The configuration of a service's pods and Kubernetes objects, which exist only in a cluster. */
export type PodShape = RateLimitPlan['pods'] &
  Pick<RateLimitPlan, 'objects'> &
  Pick<
    ClusterConfig,
    'podSecurityContext' | 'containerSecurityContext' | 'commonLabels' | 'commonAnnotations'
  >

const namespace = () => Type.String({ minLength: 1, maxLength: 63, pattern: `^${label}$` })

const rateLimit = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'Whether the operator runs the service.' }),
    replicas: replicas(),
    autoscaling: autoscaling(),
    backend: Type.Object(
      {
        type: Type.Enum(['redis', 'memory'], {
          type: 'string',
          default: 'redis',
          description: 'The storage of counters: redis, or memory, which is for a single pod only.',
        }),
        urlSecret: secretKey('url', "The Secret with the address of Redis, in the operator's namespace."),
      },
      { default: {}, description: 'The backend of the counters.' },
    ),
    env: settingsOfService(),
    envoyTimeoutMs: Type.Integer({
      minimum: 2,
      maximum: 3_600_000,
      default: 50,
      description:
        'The `timeout` of the rate limit filter of Envoy, in milliseconds. The operator sets BACKEND_DEADLINE to ' +
        'three quarters of it.',
    }),
    grpcPort: portSchema(8081, 'The port of the gRPC server.'),
    httpPort: portSchema(8080, 'The HTTP port of /json and /healthcheck.'),
    metricsPort: portSchema(9090, 'The port of the Prometheus metrics.'),
    pods: podShape('ratelimit'),
    objects: objectMetadata(),
  },
  { default: {}, description: 'The rate limit service.' },
)

const broker = Type.Object(
  {
    enabled: Type.Boolean({ default: false, description: 'Whether the operator runs the service.' }),
    replicas: replicas(),
    autoscaling: autoscaling(),
    streamLog: Type.Object(
      {
        type: Type.Enum(['redis', 'memory'], {
          type: 'string',
          default: 'redis',
          description: 'The storage of running streams: redis, or memory, which is for a single pod only.',
        }),
        urlSecret: secretKey('url', "The Secret with the address of Redis, in the operator's namespace."),
      },
      { default: {}, description: 'The storage of the messages of running streams.' },
    ),
    env: settingsOfService(),
    grpcPort: portSchema(8082, 'The port of the gRPC server.'),
    tlsSecret: Type.Object(
      { name: secretName() },
      {
        default: {},
        description:
          "The Secret with tls.crt and tls.key for gRPC and the admin API, in the operator's namespace. Without " +
          'a name, neither uses TLS.',
      },
    ),
    admin: Type.Object(
      {
        enabled: Type.Boolean({
          default: false,
          description: 'Whether the pods serve the admin API, with a Service.',
        }),
        port: portSchema(6075, 'The port of the admin API.'),
        tokenSecret: secretKey(
          'tokens',
          "The Secret with the tokens, one in each line, in the operator's namespace.",
        ),
      },
      { default: {}, description: 'The admin API, which lists, watches and interrupts streams.' },
    ),
    metricsPort: portSchema(9090, 'The port of the Prometheus metrics and of health.'),
    pods: podShape('broker'),
    objects: objectMetadata(),
  },
  { default: {}, description: 'The broker of animation streams.' },
)

const webAddress = (description: string) =>
  Type.String({ default: '', maxLength: 2048, pattern: '^(https?://[^\\s?#]+)?$', description })

const payments = Type.Object(
  {
    enabled: Type.Boolean({ default: false, description: 'Whether the operator runs the service.' }),
    replicas: replicas(),
    autoscaling: autoscaling(),
    database: Type.Object(
      {
        urlSecret: secretKey(
          'url',
          "The Secret with the address of PostgreSQL, in the operator's namespace: " +
            'postgres://user:password@host:port/database.',
        ),
      },
      { default: {}, description: 'The database of the payments service. Its pods store no state.' },
    ),
    mail: Type.Object(
      {
        urlSecret: secretKey(
          'url',
          "The Secret with the address of the mail server, in the operator's namespace: " +
            'smtp://user:password@host:port, or smtps://.',
        ),
      },
      {
        default: {},
        description:
          'The mail server for invitations. Without it, each pod writes mail to files, which are deleted with the pod.',
      },
    ),
    baseUrl: webAddress('The public URL of the API. By default, it is the address within the cluster.'),
    payPageUrl: webAddress('The public URL of the payment page. By default, it is /pay below baseUrl.'),
    env: settingsOfService(),
    port: portSchema(8090, 'The port of the API and the payment page.'),
    provisionPort: portSchema(8091, 'The port through which the operator provisions merchants.'),
    metricsPort: portSchema(6073, 'The port of the Prometheus metrics and of health.'),
    pods: podShape('payments'),
    objects: objectMetadata(),
  },
  { default: {}, description: 'The payments service.' },
)

const config = Type.Object({
  name: Type.String({
    default: 'tollway',
    minLength: 1,
    maxLength: 40,
    pattern: `^${serviceLabel}$`,
    description: 'The name of the installation, which is the prefix of the names of its objects.',
  }),
  logLevel: Type.Enum(['error', 'warn', 'info', 'debug'], {
    type: 'string',
    default: 'info',
    description: 'The log level of the operator and of the services that it runs.',
  }),
  watchNamespaces: Type.Array(namespace(), {
    default: [],
    maxItems: 100,
    description: 'The namespaces whose resources the operator watches. Empty means all namespaces.',
  }),
  operators: Type.Integer({
    minimum: 1,
    maximum: 9,
    default: 2,
    description: 'The number of operators. They share the rate limit of reads of Secrets.',
  }),
  operatorPort: portSchema(8000, 'The port of health, metrics, status, API and console.'),
  feedPort: portSchema(18_000, 'The port of the feed.'),
  feedCertificates: Type.Object(
    {
      issuer: Type.Enum(['operator', 'cert-manager'], {
        type: 'string',
        default: 'operator',
        description:
          'The issuer of the certificates of operators and pods: the operator itself, or cert-manager.',
      }),
    },
    { default: {}, description: 'The certificates by which operators and pods authenticate each other.' },
  ),
  lease: Type.Object(
    {
      durationSeconds: Type.Integer({
        minimum: 2,
        maximum: 600,
        default: 8,
        description:
          'The time in seconds after the last renewal of the Lease at which another operator can become the leader.',
      }),
      renewDeadlineSeconds: Type.Integer({
        minimum: 1,
        maximum: 600,
        default: 6,
        description:
          'The time in seconds without a successful renewal after which the leader resigns. Must be below durationSeconds.',
      }),
      retrySeconds: Type.Integer({
        minimum: 1,
        maximum: 60,
        default: 3,
        description:
          'The interval in seconds between two renewals of the Lease. Must be below renewDeadlineSeconds.',
      }),
    },
    {
      default: {},
      description:
        'The election of the leader, which is the only operator that writes statuses and infrastructure.',
    },
  ),
  domainGrants: Type.Array(
    Type.Object(
      {
        domain: Type.String({ minLength: 1, maxLength: 253, description: 'The domain.' }),
        namespaces: Type.Array(namespace(), {
          maxItems: 100,
          description: 'The namespaces whose resources may use the domain.',
        }),
      },
      { description: 'A domain and the namespaces that may use it.' },
    ),
    {
      default: [],
      maxItems: 1000,
      description:
        'Domains that only certain namespaces may use. Any other domain belongs to its oldest resource.',
    },
  ),
  commonLabels: commonLabels(),
  commonAnnotations: commonAnnotations(),
  podSecurityContext: podSecurityContext(),
  containerSecurityContext: containerSecurityContext(),
  rateLimit,
  broker,
  payments,
})

export const clusterConfigSchema: Schema = config

/** Returns the configuration with its defaults, or all of its problems, each with the path of its field. */
export function validateClusterConfig(found: unknown): Validated<ClusterConfig> {
  const judged = validateValue(clusterConfigSchema, found)
  if ('problems' in judged) return judged
  const value = judged.value as ClusterConfig
  const problems = betweenFields(value)
  return problems.length > 0 ? { problems } : { value }
}

function betweenFields({ lease, rateLimit, broker, payments }: ClusterConfig): readonly SchemaProblem[] {
  const problems: SchemaProblem[] = []
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
  return [
    ...problems,
    ...checkService(rateLimit, {
      field: 'rateLimit',
      state: { field: 'backend', ...rateLimit.backend },
      alone: 'each pod counts separately',
    }),
    ...checkService(broker, {
      field: 'broker',
      state: { field: 'streamLog', ...broker.streamLog },
      alone: 'consumers of one pod do not receive the streams of another',
    }),
    ...withoutTokens(broker),
    ...checkService(payments, { field: 'payments' }),
    ...withoutDatabase(payments),
  ]
}

function withoutTokens({ enabled, admin }: BrokerPlan): readonly SchemaProblem[] {
  if (!enabled || !admin.enabled || admin.tokenSecret.name !== '') return []
  return [
    { path: 'broker.admin.tokenSecret.name', message: 'is required: the name of the Secret with the tokens' },
  ]
}

/**
 * Rejects a payments service without a database: its data in the memory of a pod would be lost with the pod.
 */
function withoutDatabase({ enabled, database: { urlSecret } }: PaymentsPlan): readonly SchemaProblem[] {
  if (!enabled || urlSecret.name !== '') return []
  const message = 'is required: the name of the Secret with the address of PostgreSQL'
  return [{ path: 'payments.database.urlSecret.name', message }]
}
