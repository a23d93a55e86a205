import Type, { type Static } from 'typebox'
import type { DeepReadonly } from './deep-readonly.ts'
import { describeFound } from './describe.ts'
import type { Problem, Schema } from './schema.ts'
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
  port,
  replicas,
  secretKey,
  secretName,
  serviceLabel,
  settingsOfService,
} from './service-plan.ts'
import { type Validated, validate } from './validation/validate.ts'

/**
 * How the operator runs in a cluster: its configuration file there, and with the same names the values of the
 * chart. From this schema come the types, the judgement of the file, and the chart's values.schema.json.
 */
export type ClusterConfig = DeepReadonly<Static<typeof config>>
/** How the rate limit service runs. */
export type RateLimitPlan = ClusterConfig['rateLimit']
/** How the broker of animation streams runs. */
export type BrokerPlan = ClusterConfig['broker']
/** How the payments service runs. */
export type PaymentsPlan = ClusterConfig['payments']
/** The properties of a service's pods and objects that only exist in a cluster. */
export type PodShape = RateLimitPlan['pods'] &
  Pick<RateLimitPlan, 'objects'> &
  Pick<
    ClusterConfig,
    'podSecurityContext' | 'containerSecurityContext' | 'commonLabels' | 'commonAnnotations'
  >

const namespace = () => Type.String({ minLength: 1, maxLength: 63, pattern: `^${label}$` })

const rateLimit = Type.Object(
  {
    enabled: Type.Boolean({ default: true, description: 'Whether the service runs at all.' }),
    replicas: replicas(),
    autoscaling: autoscaling(),
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
    env: settingsOfService(),
    envoyTimeoutMs: Type.Integer({
      minimum: 2,
      maximum: 3_600_000,
      default: 50,
      description:
        'The `timeout` of the rate limit filter of Envoy, in milliseconds. BACKEND_DEADLINE is three quarters of it.',
    }),
    grpcPort: port(8081, 'The port of gRPC.'),
    httpPort: port(8080, 'The port of /json and /healthcheck.'),
    metricsPort: port(9090, 'The port of the metrics of Prometheus.'),
    pods: podShape('ratelimit'),
    objects: objectMetadata(),
  },
  { default: {}, description: 'The rate limit service.' },
)

const broker = Type.Object(
  {
    enabled: Type.Boolean({ default: false, description: 'Whether the service runs at all.' }),
    replicas: replicas(),
    autoscaling: autoscaling(),
    streamLog: Type.Object(
      {
        type: Type.Enum(['redis', 'memory'], {
          type: 'string',
          default: 'redis',
          description: 'Where streams are kept while they last. Memory is for one pod alone.',
        }),
        urlSecret: secretKey('url', "A Secret of the operator's namespace with the address of the Redis."),
      },
      { default: {}, description: 'What producers have sent, for their consumers.' },
    ),
    env: settingsOfService(),
    grpcPort: port(8082, 'The port of gRPC.'),
    tlsSecret: Type.Object(
      { name: secretName() },
      {
        default: {},
        description:
          "A Secret of the operator's namespace with tls.crt and tls.key, for gRPC and the admin API; " +
          'without a name, no TLS.',
      },
    ),
    admin: Type.Object(
      {
        enabled: Type.Boolean({ default: false, description: 'Whether pods open the port, with a Service.' }),
        port: port(6075, 'The port of the admin API.'),
        tokenSecret: secretKey('tokens', "A Secret of the operator's namespace with the tokens, one a line."),
      },
      { default: {}, description: 'The admin API, which lists, watches and interrupts streams.' },
    ),
    metricsPort: port(9090, 'The port of the metrics of Prometheus, and of health.'),
    pods: podShape('broker'),
    objects: objectMetadata(),
  },
  { default: {}, description: 'The broker of animation streams.' },
)

const webAddress = (description: string) =>
  Type.String({ default: '', maxLength: 2048, pattern: '^(https?://[^\\s?#]+)?$', description })

const payments = Type.Object(
  {
    enabled: Type.Boolean({ default: false, description: 'Whether the service runs at all.' }),
    replicas: replicas(),
    autoscaling: autoscaling(),
    database: Type.Object(
      {
        urlSecret: secretKey(
          'url',
          "A Secret of the operator's namespace with the address of the PostgreSQL: " +
            'postgres://user:password@host:port/database.',
        ),
      },
      { default: {}, description: 'The database of payments. Pods store no state.' },
    ),
    mail: Type.Object(
      {
        urlSecret: secretKey(
          'url',
          "A Secret of the operator's namespace with the address of the mail server: " +
            'smtp://user:password@host:port, or smtps://.',
        ),
      },
      {
        default: {},
        description: 'Where invitations go. Without it they end as files in the pods, and with them.',
      },
    ),
    baseUrl: webAddress('Where programs find the API from outside. Left empty: within the cluster.'),
    payPageUrl: webAddress('Where payers find the payment page. Left empty: /pay below baseUrl.'),
    env: settingsOfService(),
    port: port(8090, 'The port of the API and the payment page.'),
    provisionPort: port(8091, 'The port through which the operator provisions merchants.'),
    metricsPort: port(6073, 'The port of the metrics of Prometheus, and of health.'),
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
    description: 'The name of the installation, with which the names of all that it makes begin.',
  }),
  logLevel: Type.Enum(['error', 'warn', 'info', 'debug'], {
    type: 'string',
    default: 'info',
    description: 'The level of the log of the operator and of the services that it runs.',
  }),
  watchNamespaces: Type.Array(namespace(), {
    default: [],
    maxItems: 100,
    description: 'The namespaces whose resources count. Empty for all of them.',
  }),
  operators: Type.Integer({
    minimum: 1,
    maximum: 9,
    default: 2,
    description: 'How many operators run. They share the limit of reads of Secrets.',
  }),
  operatorPort: port(8000, 'The port of health, metrics and status.'),
  feedPort: port(18_000, 'The port of the feed.'),
  feedCertificates: Type.Object(
    {
      issuer: Type.Enum(['operator', 'cert-manager'], {
        type: 'string',
        default: 'operator',
        description: 'Who issues and renews the certificates of operators and pods.',
      }),
    },
    { default: {}, description: 'The certificates by which operators and pods authenticate each other.' },
  ),
  lease: Type.Object(
    {
      durationSeconds: Type.Integer({
        minimum: 2,
        maximum: 600,
        default: 6,
        description: 'How long a leader that is not heard of stays leader.',
      }),
      renewDeadlineSeconds: Type.Integer({
        minimum: 1,
        maximum: 600,
        default: 4,
        description: 'After how long without a renewal a leader stops by itself.',
      }),
      retrySeconds: Type.Integer({
        minimum: 1,
        maximum: 60,
        default: 1,
        description: 'The interval between two reads of the Lease.',
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
  commonLabels: commonLabels(),
  commonAnnotations: commonAnnotations(),
  podSecurityContext: podSecurityContext(),
  containerSecurityContext: containerSecurityContext(),
  rateLimit,
  broker,
  payments,
})

/** The documentation and the chart are generated from this schema. */
export const clusterConfigSchema: Schema = config

/** The configuration with its defaults, or every problem that it has, each with its field. */
export function validateClusterConfig(found: unknown): Validated<ClusterConfig> {
  const judged = validate(clusterConfigSchema, found)
  if ('problems' in judged) return judged
  const value = judged.value as ClusterConfig
  const problems = betweenFields(value)
  return problems.length > 0 ? { problems } : { value }
}

function betweenFields({ lease, rateLimit, broker, payments }: ClusterConfig): readonly Problem[] {
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
  return [
    ...problems,
    ...checkService(rateLimit, {
      field: 'rateLimit',
      state: { field: 'backend', ...rateLimit.backend },
      alone: 'each pod would count for itself',
    }),
    ...checkService(broker, {
      field: 'broker',
      state: { field: 'streamLog', ...broker.streamLog },
      alone: 'consumers of one pod would not see the producers of another',
    }),
    ...withoutTokens(broker),
    ...checkService(payments, { field: 'payments' }),
    ...withoutDatabase(payments),
  ]
}

function withoutTokens({ enabled, admin }: BrokerPlan): readonly Problem[] {
  if (!enabled || !admin.enabled || admin.tokenSecret.name !== '') return []
  return [{ path: 'broker.admin.tokenSecret.name', message: 'the Secret with the tokens must be named' }]
}

/** Rejects payments without a database: data in the memory of a pod would be lost with the pod. */
function withoutDatabase({ enabled, database: { urlSecret } }: PaymentsPlan): readonly Problem[] {
  if (!enabled || urlSecret.name !== '') return []
  const message = 'the Secret with the address of the PostgreSQL must be named'
  return [{ path: 'payments.database.urlSecret.name', message }]
}
