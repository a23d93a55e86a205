import type { JsonObject } from '@tollway/chassis/json.ts'
import { clusterConfigSchema } from '@tollway/crds/cluster-config.ts'
import type { Schema } from '@tollway/crds/schema.ts'

/**
 * Returns the JSON Schema by which helm validates the chart's values: the fields of the operator's
 * configuration under the same names, and the fields of the chart itself. An unknown field is rejected, since
 * a misspelled name would otherwise have no effect.
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
          "Whether admission policies admit objects of the operator's account only as the operator makes them " +
            'from the values.',
        ),
      }),
      operator: closed(operatorFields(operatorPort, feedPort), 'The pods of the operator.'),
      rateLimit: toJsonSchema(withoutUrlSecret(withDigest(rateLimit))),
      broker: toJsonSchema(withOwnUrlSecret(withDigest(broker))),
      payments: toJsonSchema(withDigest(payments)),
      redis: closed(
        redisFields(),
        'The Redis that the pods of a service share. Set one of existingSecret, url and bundled.',
      ),
      crds: closed({
        enabled: flag(
          'Whether the chart installs the custom resource definitions and their admission policy.',
        ),
        install: flag('Deprecated: the former name of `enabled`. false has the same effect.'),
        keep: flag('Whether an uninstall of the release keeps the definitions and all resources.'),
        allowDowngrade: flag(
          'Whether the chart may replace newer definitions. Otherwise, the installation fails.',
        ),
      }),
      aggregatedRoles: flag(
        "Whether ClusterRoles add the resources to the cluster's roles view, edit and admin.",
      ),
      networkPolicy: closed({ enabled: flag('Whether NetworkPolicies limit the connections to the pods.') }),
      console: closed(
        consoleFields(),
        'The access to the console and the API of the operators from outside the cluster.',
      ),
      waitUntilReady: closed({
        enabled: flag('Whether a hook waits after an install or upgrade until all resources are ready.'),
        seconds: whole(1, 3600, 'The maximum time of the hook in seconds.'),
        graceSeconds: whole(
          0,
          3600,
          'How long a problem must last that only a change ends, such as a missing Secret, an image that cannot be ' +
            'pulled, or an invalid setting, until the hook fails.',
        ),
      }),
      monitoring: closed(monitoringFields()),
      global: {
        type: 'object',
        description: 'The values that helm passes to every subchart. They have no effect.',
      },
    }),
  }
}

function monitoringFields(): JsonObject {
  return {
    podMonitor: switched('A PodMonitor of the Prometheus operator for each kind of pod.', { interval }),
    serviceMonitor: switched('A ServiceMonitor for each kind of pod, with a Service for its metrics.', {
      interval,
    }),
    alerts: switched('A PrometheusRule with alerts, each with its runbook.', {
      runbooks: text('The URL of docs/operations/runbooks.md. Each alert links to it with # and its name.'),
    }),
    dashboard: switched('A ConfigMap with a dashboard for Grafana.'),
  }
}

const imageDigest: Schema = {
  type: 'string',
  pattern: '^(sha256:[0-9a-f]{64})?$',
  description: 'The digest of the image: sha256: and 64 hexadecimal digits. Empty means only the tag.',
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
  // These labels and annotations are set by the chart and the operator, so users must not set them.
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
            'The registry, with an optional path, of each image without one: registry.example.com/mirror.',
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
        name: text('The name of the issuer. Required with cert-manager.'),
        kind: text('The kind of the issuer: Issuer, ClusterIssuer, or a kind of another API group.'),
        group: text('The API group of the issuer.'),
      },
      'The issuer of cert-manager. Every program with a certificate of this issuer can call the feed.',
    ),
    duration: hours('The validity of certificates of cert-manager, in hours.'),
    renewBefore: hours('The time before their expiry at which cert-manager renews certificates, in hours.'),
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
    description: 'The annotations of the object.',
  }
  return {
    ingress: switched('An Ingress for /console and /api/v1.', {
      className: text('The IngressClass. Empty means the default of the cluster.'),
      hosts: { type: 'array', items: hostName, description: 'The hosts. At least one is required.' },
      tls: objects('The TLS configuration: hosts, and the Secret with their certificate.'),
      annotations,
    }),
    httpRoute: switched('An HTTPRoute of the Gateway API for /console and /api/v1.', {
      parentRefs: objects('The Gateways. At least one is required.'),
      hostnames: {
        type: 'array',
        items: hostName,
        description: 'The hosts. Empty means the hosts of the Gateway.',
      },
      annotations,
    }),
  }
}

/** Removes the Secret with the address of Redis: the chart derives it from the values of `redis`. */
function withoutUrlSecret(rateLimit: Schema = {}): Schema {
  const { backend = {}, ...fields } = rateLimit.properties ?? {}
  const { urlSecret: _, ...backendFields } = backend.properties ?? {}
  return { ...rateLimit, properties: { ...fields, backend: { ...backend, properties: backendFields } } }
}

/**
 * Keeps the Secret with the address of Redis, with another description: streams can use another Redis than
 * counters.
 */
function withOwnUrlSecret(broker: Schema = {}): Schema {
  const { streamLog = {}, ...fields } = broker.properties ?? {}
  const { urlSecret = {}, ...logFields } = streamLog.properties ?? {}
  const description =
    'The Secret with the address of the Redis for streams, in the namespace of the release. By default, the ' +
    'Redis of the value redis has the streams.'
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
      'The namespaces whose Secrets the operator may read by name, and with payments write. Empty means none; a ' +
      "namespace can grant its Secrets by a RoleBinding. `'*'` means all watched namespaces. Without " +
      'watchNamespaces these are all Secrets of the cluster, which include the tokens and passwords of every ' +
      'account.',
  }
}

function operatorFields(operatorPort: Schema = {}, feedPort: Schema = {}): JsonObject {
  return {
    ...podFields(),
    objects: toJsonSchema(clusterConfigSchema.properties?.['rateLimit']?.properties?.['objects'] ?? {}),
    replicas: whole(1, 9, 'The number of operators. All serve the feed, and one is the leader.'),
    port: toJsonSchema(operatorPort),
    feedPort: toJsonSchema(feedPort),
  }
}

/** Returns the fields that the operator's pods have in common with the pods of services. */
function podFields(): JsonObject {
  const { maxUnavailable: _, image = {}, ...fields } = podSchemas()
  const all = { image, imageDigest, ...fields, extraVolumes: anyVolumes }
  return Object.fromEntries(Object.entries(all).map(([name, schema]) => [name, toJsonSchema(schema)]))
}

/**
 * Volumes of any source. In the pods of services only some sources are allowed, but the chart creates the
 * pods of the operator.
 */
const anyVolumes: Schema = {
  type: 'array',
  maxItems: 64,
  items: { type: 'object' },
  description: 'Additional volumes of the pods.',
}

function podSchemas(): Readonly<Record<string, Schema>> {
  return clusterConfigSchema.properties?.['rateLimit']?.properties?.['pods']?.properties ?? {}
}

function redisFields(): JsonObject {
  const maxMemory = {
    type: 'string',
    pattern: '^[1-9][0-9]*(kb|mb|gb)$',
    description:
      'The maxmemory of Redis, beyond which it rejects writes. Set it below the memory limit of the ' +
      'container.',
  }
  const { image, imagePullPolicy, resources } = podFields()
  return {
    existingSecret: closed({
      name: text('The Secret with the address of Redis, in the namespace of the release.'),
      key: text('The key of the entry in the Secret.'),
    }),
    url: text('The address of Redis. The chart creates a Secret with it.'),
    bundled: closed({
      enabled: flag('Whether the chart runs a small Redis, for trials.'),
      image: image ?? {},
      imageDigest: toJsonSchema(imageDigest),
      imagePullPolicy: imagePullPolicy ?? {},
      maxMemory,
      resources: resources ?? {},
      streams: closed(
        { maxMemory, resources: resources ?? {} },
        'The separate Redis for streams, if the broker stores them in Redis.',
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
const interval = duration(
  'The interval at which metrics are scraped. Alerts evaluate at least the last 2 minutes.',
)
const switched = (description: string, more: JsonObject = {}): JsonObject =>
  closed({
    enabled: flag(description),
    labels: {
      type: 'object',
      additionalProperties: { type: 'string' },
      description: 'The labels of the object.',
    },
    ...more,
  })

function closed(properties: JsonObject, description?: string): JsonObject {
  return { type: 'object', ...(description && { description }), additionalProperties: false, properties }
}

/**
 * Returns a schema for helm: without keywords that only an API server supports, and without defaults, which
 * values.yaml contains.
 */
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

/** Returns the required fields that have no default. */
function needed({ required = [], properties = {} }: Schema): readonly string[] {
  return required.filter(name => properties[name] !== undefined && properties[name].default === undefined)
}
