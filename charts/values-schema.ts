import { clusterConfigSchema } from '@tollway/crds/cluster-config.ts'
import type { JsonObject, Schema } from '@tollway/crds/schema.ts'

/**
 * The schema of the chart's values, in JSON Schema as helm judges it: the operator's configuration under its
 * own names, and what the chart itself needs to know. A field that is not known is refused, for a slip in a
 * name would otherwise do nothing, and say nothing.
 */
export function valuesSchema(): JsonObject {
  const {
    name: _,
    operators: __,
    operatorPort,
    feedPort,
    rateLimit,
    broker,
    payments,
    commonLabels: ___,
    commonAnnotations: ____,
    feedCertificates,
    ...shared
  } = clusterConfigSchema.properties ?? {}
  return {
    $schema: 'http://json-schema.org/draft-07/schema#',
    title: 'Values of the Tollway chart',
    ...closed({
      ...Object.fromEntries(Object.entries(shared).map(([name, schema]) => [name, toJsonSchema(schema)])),
      ...imageAndMetadata(),
      feedCertificates: closed(feedCertificateFields(feedCertificates), feedCertificates?.description),
      secretNamespaces: secretNamespaces(),
      operatorPolicy: closed({
        enabled: flag(
          "Admission policies limit what the operator's account writes: Secrets, pods, Merchants.",
        ),
      }),
      operator: closed(operatorFields(operatorPort, feedPort), 'The pods of the operator.'),
      rateLimit: toJsonSchema(withoutUrlSecret(withDigest(rateLimit))),
      broker: toJsonSchema(withOwnUrlSecret(withDigest(broker))),
      payments: toJsonSchema(withDigest(payments)),
      redis: closed(redisFields(), 'The Redis that the pods of a service share.'),
      crds: closed({
        enabled: flag('Install the definitions and their admission policy.'),
        install: flag('Deprecated: the former name of `enabled`. False has the same effect.'),
        keep: flag('Keep them, and with them all resources, when the release is uninstalled.'),
        allowDowngrade: flag('Install the definitions over newer ones, which else fails.'),
      }),
      aggregatedRoles: flag("Add the resources to the cluster's roles view, edit and admin."),
      networkPolicy: closed({ enabled: flag('Say who may reach the pods.') }),
      console: closed(consoleFields(), 'The console and the API of the operators, from outside.'),
      waitUntilReady: closed({
        enabled: flag('A hook waits until everything is ready.'),
        seconds: whole(1, 3600, 'The maximum, in seconds.'),
      }),
      monitoring: closed({
        podMonitor: switched('A PodMonitor of the Prometheus operator for each kind of pod.', { interval }),
        serviceMonitor: switched('A ServiceMonitor for each kind of pod, with a Service for its metrics.', {
          interval,
        }),
        alerts: switched('A PrometheusRule with alerts, each with its runbook.', {
          runbooks: text('The URL of docs/operations/runbooks.md, to which # and the alert are added.'),
        }),
        dashboard: switched('A ConfigMap with a dashboard for Grafana.'),
      }),
      global: {
        type: 'object',
        description: 'The values that helm passes to every subchart. They have no effect.',
      },
    }),
  }
}

/** The digest of an image, which the chart appends to the image. */
const imageDigest: Schema = {
  type: 'string',
  pattern: '^(sha256:[0-9a-f]{64})?$',
  description: 'The digest of the image: sha256 and 64 hexadecimal digits; empty for the tag alone.',
}

function withDigest(service: Schema = {}): Schema {
  const { pods = {}, ...fields } = service.properties ?? {}
  const { image = {}, ...podFields } = pods.properties ?? {}
  return {
    ...service,
    properties: { ...fields, pods: { ...pods, properties: { image, imageDigest, ...podFields } } },
  }
}

function imageAndMetadata(): Readonly<Record<string, JsonObject>> {
  const { commonLabels = {}, commonAnnotations = {} } = clusterConfigSchema.properties ?? {}
  // The chart and the operator set these names themselves.
  const patternProperties = { '^(app\\.kubernetes\\.io|helm\\.sh|tollway\\.dev)/': false }
  return {
    commonLabels: { ...toJsonSchema(commonLabels), patternProperties },
    commonAnnotations: { ...toJsonSchema(commonAnnotations), patternProperties },
    image: closed(
      {
        registry: {
          type: 'string',
          maxLength: 253,
          pattern: '^([a-z0-9.-]+(:[0-9]+)?(/[a-z0-9._-]+)*)?$',
          description:
            'The registry of each image that names none, with a path: registry.example.com/mirror.',
        },
        pullSecrets: toJsonSchema(podSchemas()['imagePullSecrets'] ?? {}),
      },
      'The images of all pods.',
    ),
  }
}

function feedCertificateFields({ properties: { issuer = {} } = {} }: Schema = {}): JsonObject {
  const hours = (description: string): JsonObject => ({
    type: 'string',
    pattern: '^[1-9][0-9]{0,4}h$',
    description,
  })
  return {
    issuer: toJsonSchema(issuer),
    issuerRef: closed(
      {
        name: text('Its name. Needed with cert-manager.'),
        kind: text('Its kind: Issuer or ClusterIssuer, or that of another group.'),
        group: text('Its API group.'),
      },
      'The issuer of cert-manager. Everyone with a certificate of it can call the feed.',
    ),
    duration: hours('How long certificates of cert-manager are valid, in hours.'),
    renewBefore: hours('How long before their end cert-manager renews them, in hours.'),
  }
}

const hostName: JsonObject = {
  type: 'string',
  maxLength: 253,
  pattern: '^(\\*\\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$',
}

function consoleFields(): JsonObject {
  const objects = (description: string) => ({ type: 'array', items: { type: 'object' }, description })
  const annotations = {
    type: 'object',
    additionalProperties: { type: 'string' },
    description: 'Annotations of it.',
  }
  return {
    ingress: switched('An Ingress for /console and /api/v1.', {
      className: text('Its IngressClass; empty for that of the cluster.'),
      hosts: { type: 'array', items: hostName, description: 'The hosts. One is needed.' },
      tls: objects('Its TLS: hosts and the Secret with their certificate.'),
      annotations,
    }),
    httpRoute: switched('An HTTPRoute of the Gateway API for /console and /api/v1.', {
      parentRefs: objects('The Gateways. One is needed.'),
      hostnames: {
        type: 'array',
        items: hostName,
        description: 'The hosts; empty for those of the Gateway.',
      },
      annotations,
    }),
  }
}

/** Which Secret the pods read follows from `redis`. */
function withoutUrlSecret(rateLimit: Schema = {}): Schema {
  const { backend = {}, ...fields } = rateLimit.properties ?? {}
  const { urlSecret: _, ...backendFields } = backend.properties ?? {}
  return { ...rateLimit, properties: { ...fields, backend: { ...backend, properties: backendFields } } }
}

/** Streams may be kept elsewhere than counters are. */
function withOwnUrlSecret(broker: Schema = {}): Schema {
  const { streamLog = {}, ...fields } = broker.properties ?? {}
  const { urlSecret = {}, ...logFields } = streamLog.properties ?? {}
  const description =
    'A Secret of this namespace with the address of a Redis for streams; without a name, redis.'
  const properties = { ...logFields, urlSecret: { ...urlSecret, description } }
  return { ...broker, properties: { ...fields, streamLog: { ...streamLog, properties } } }
}

function secretNamespaces(): JsonObject {
  const { watchNamespaces } = clusterConfigSchema.properties ?? {}
  const { maxItems, items } = toJsonSchema(watchNamespaces ?? {}) as { maxItems: number; items: JsonObject }
  const { pattern, ...bounds } = items as { readonly pattern: string }
  return {
    type: 'array',
    maxItems,
    items: { ...bounds, pattern: `${pattern}|^\\*$` },
    description:
      'The namespaces whose Secrets the operator may read by name, and with payments write. Left out or empty: ' +
      "none, until a namespace grants it by a RoleBinding. `'*'`: all that are watched; without " +
      'watchNamespaces these are all Secrets of the cluster, and with them every account whose token or ' +
      'password is in a Secret.',
  }
}

function operatorFields(operatorPort: Schema = {}, feedPort: Schema = {}): JsonObject {
  return {
    ...podFields(),
    objects: toJsonSchema(clusterConfigSchema.properties?.['rateLimit']?.properties?.['objects'] ?? {}),
    replicas: whole(1, 9, 'How many operators run; one of them writes.'),
    port: toJsonSchema(operatorPort),
    feedPort: toJsonSchema(feedPort),
  }
}

/** What the operator's pods have in common with those that it makes. */
function podFields(): JsonObject {
  const { maxUnavailable: _, image = {}, ...fields } = podSchemas()
  const all = { image, imageDigest, ...fields, extraVolumes: anyVolumes }
  return Object.fromEntries(Object.entries(all).map(([name, schema]) => [name, toJsonSchema(schema)]))
}

/** The chart makes the pods of the operator, so no policy limits their volumes. */
const anyVolumes: Schema = {
  type: 'array',
  maxItems: 64,
  items: { type: 'object' },
  description: 'More volumes of the pods.',
}

function podSchemas(): Readonly<Record<string, Schema>> {
  return clusterConfigSchema.properties?.['rateLimit']?.properties?.['pods']?.properties ?? {}
}

function redisFields(): JsonObject {
  const maxMemory = {
    type: 'string',
    pattern: '^[1-9][0-9]*(kb|mb|gb)$',
    description: 'Its maxmemory, beyond which it refuses writes: less than the limit of the container.',
  }
  const { image, imagePullPolicy, resources } = podFields()
  return {
    existingSecret: closed({
      name: text('A Secret of this namespace that holds the address.'),
      key: text('The entry in it.'),
    }),
    url: text('The address itself, of which the chart makes a Secret.'),
    bundled: closed({
      enabled: flag('Run a small Redis, for trials.'),
      image: image ?? {},
      imageDigest: toJsonSchema(imageDigest),
      imagePullPolicy: imagePullPolicy ?? {},
      maxMemory,
      resources: resources ?? {},
      streams: closed(
        { maxMemory, resources: resources ?? {} },
        'The Redis for streams beside it, where the broker keeps them in Redis.',
      ),
    }),
  }
}

const text = (description: string): JsonObject => ({ type: 'string', maxLength: 2048, description })
const flag = (description: string): JsonObject => ({ type: 'boolean', description })
const whole = (minimum: number, maximum: number, description: string): JsonObject => ({
  type: 'integer',
  minimum,
  maximum,
  description,
})
const duration = (description: string): JsonObject => ({
  type: 'string',
  pattern: '^[0-9]+(ms|s|m)$',
  description,
})
const interval = duration('How often metrics are read; alerts look back 2 minutes and more.')
const switched = (description: string, more: JsonObject = {}): JsonObject =>
  closed({
    enabled: flag(description),
    labels: { type: 'object', additionalProperties: { type: 'string' }, description: 'Labels of it.' },
    ...more,
  })

function closed(properties: JsonObject, description?: string): JsonObject {
  return { type: 'object', ...(description && { description }), additionalProperties: false, properties }
}

/** Omits the keywords that only an API server knows, and defaults, which values.yaml has. */
function toJsonSchema(schema: Schema): JsonObject {
  const { properties, items, additionalProperties, default: _, ...rest } = schema
  const words = Object.entries(rest).filter(([word]) => !/^x-|^(rules|tooManyItems|required)$|^~/.test(word))
  const isFree = schema['x-kubernetes-preserve-unknown-fields'] === true
  return {
    ...(Object.fromEntries(words) as JsonObject),
    ...(properties && {
      properties: Object.fromEntries(
        Object.entries(properties).map(([name, field]) => [name, toJsonSchema(field)]),
      ),
      additionalProperties: false,
    }),
    ...(items && { items: toJsonSchema(items) }),
    ...(additionalProperties && !isFree && { additionalProperties: toJsonSchema(additionalProperties) }),
    ...(schema.required && schema.required.length > 0 && properties && { required: needed(schema) }),
  }
}

/** Returns the required fields without a default. */
function needed({ required = [], properties = {} }: Schema): readonly string[] {
  return required.filter(name => properties[name] !== undefined && properties[name].default === undefined)
}
