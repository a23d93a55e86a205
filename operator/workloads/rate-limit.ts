import { nodeEnvironment } from '@tollway/chassis/node-environment.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import { nodeOptions } from '@tollway/ratelimit/node-options.ts'
import { settings } from '@tollway/ratelimit/settings.ts'
import type { Workload } from '../model.ts'
import {
  type CommonConfig,
  type HostConfig,
  maxReplicas,
  numberOption,
  portOption,
  settingsOption,
  switchOption,
} from './host-option.ts'
import {
  type ClusterService,
  closeOnHostMs,
  type HostService,
  hostDrainDelay,
  type SharedState,
  type WorkloadOptions,
} from './service.ts'
import {
  closeMs,
  createServiceEnv,
  feedClientEnv,
  formatFeedAddress,
  listSettingNames,
  makeSecretFiles,
  podEnv,
  toSharedState,
} from './service-env.ts'

export const rateLimitEnv = createServiceEnv({
  settings,
  decided: [
    { setting: settings.grpcHost, machine: 'host' },
    { setting: settings.host, machine: 'host' },
    { setting: settings.grpcPort, machine: 'grpcPort', cluster: 'rateLimit.grpcPort' },
    { setting: settings.port, machine: 'httpPort', cluster: 'rateLimit.httpPort' },
    { setting: settings.debugHost },
    { setting: settings.debugPort, machine: 'debugPort' },
    { setting: settings.reusePort },
    { setting: settings.usePullStats, machine: 'metrics' },
    { setting: settings.pullStatsAddress, machine: 'metricsPort', cluster: 'rateLimit.metricsPort' },
    { setting: settings.configType },
    { setting: settings.xdsServer, machine: 'feedPort', cluster: 'feedPort' },
    { setting: settings.xdsNodeId },
    { setting: settings.xdsNodeMetadata },
    { setting: settings.backendType, machine: 'redisUrl', cluster: 'rateLimit.backend' },
    { setting: settings.redisSocketType, machine: 'redisUrl', cluster: 'rateLimit.backend' },
    { setting: settings.redisUrl, machine: 'redisUrl', cluster: 'rateLimit.backend' },
  ],
  openNames: /^(USE_)?(AGENTSTATS|DOG_STATSD)_MOGRIFIER_\w+_(PATTERN|NAME|TAGS)$/,
})

const options = {
  replicas: numberOption({
    flag: 'replicas',
    fallback: 1,
    max: maxReplicas,
    help: 'the number of rate limit processes; several share their counters in a Redis',
  }),
  grpcPort: portOption({ flag: 'grpc-port', fallback: 8081, help: 'the port of rate limit calls by gRPC' }),
  httpPort: portOption({ flag: 'http-port', fallback: 8080, help: 'the port of rate limit calls by HTTP' }),
  debugPort: portOption({
    flag: 'debug-port',
    fallback: 6070,
    help: 'the debug port of the first process, on loopback',
  }),
  metrics: switchOption({ flag: 'metrics', help: 'serve Prometheus metrics of each process, on loopback' }),
  metricsPort: portOption({
    flag: 'metrics-port',
    fallback: 9090,
    help: 'the port of the metrics of the first process',
  }),
  envoyTimeoutMs: numberOption({
    flag: 'envoy-timeout-ms',
    fallback: 20,
    min: 2,
    max: 3_600_000,
    help: "the timeout of Envoy's rate limit filter; with a Redis, BACKEND_DEADLINE is three quarters of it",
  }),
  rateLimitEnv: settingsOption(rateLimitEnv, {
    flag: 'env',
    help: 'a setting of the rate limit service; repeat it for each setting',
  }),
}

type Config = HostConfig<typeof options> & CommonConfig

export const rateLimitOnHost = {
  program: {
    main: new URL('../../services/ratelimit/main.ts', import.meta.url),
    options: nodeOptions,
    env: nodeEnvironment,
  },
  options,
  processes: ({ replicas }) => replicas,
  portFields: { grpc: 'grpcPort', http: 'httpPort', debug: 'debugPort', metrics: 'metricsPort' },
  sharedPorts: ['grpcPort', 'httpPort'],
  ownPorts({ debugPort, metrics, metricsPort }, index) {
    const isFirst = index === 0
    return {
      debug: isFirst ? debugPort : debugPort + 30 + index,
      ...(metrics && { metrics: isFirst ? metricsPort : metricsPort + 10 + index }),
    }
  },
  addresses: ({ grpcPort, httpPort }, host) => ({
    grpc: `${host}:${grpcPort}`,
    http: `http://${host}:${httpPort}`,
  }),
  state: 'counters',
  // Counters in the user's Redis outlive a restart of the process, even if there is only one process.
  sharesRedis: ({ replicas, redisUrl }) => replicas > 1 || redisUrl !== '',
  problems: config =>
    config.metrics
      ? settingsWithoutMetricsPort(config.rateLimitEnv).map(name => ({
          field: 'rateLimitEnv',
          problem: `${name}: is not allowed with`,
          with: 'metrics',
        }))
      : [],
  workload(config, { sharedState, feedAddress }) {
    const metrics = config.metrics ? { USE_PULLSTATS: 'true', DISABLE_STATS: 'false' } : {}
    const env = { ...hostDrainDelay, ...metrics, ...config.rateLimitEnv }
    return rateLimitWorkload({
      replicas: config.replicas,
      backend: sharedState,
      envoyTimeoutMs: config.envoyTimeoutMs,
      grpcPort: config.grpcPort,
      httpPort: config.httpPort,
      feedAddress,
      logLevel: config.logLevel,
      stopGraceMs: rateLimitEnv.drainMs(env) + closeOnHostMs,
      env,
    })
  },
  firstReadyMs: 30_000,
} as const satisfies HostService<Config>

/**
 * Returns the names of those settings that would send statistics elsewhere than to the metrics port, or
 * disable them.
 */
function settingsWithoutMetricsPort(env: Readonly<Record<string, string>>): readonly string[] {
  const { usePushStats, useAgentStats, disableStats } = settings
  return [usePushStats, useAgentStats, disableStats].flatMap(setting =>
    listSettingNames(setting).filter(name => env[name] && setting.kind.parse(env[name]) === true),
  )
}

interface RateLimitWorkloadOptions extends WorkloadOptions {
  readonly backend: SharedState
  readonly httpPort: number
  /** How long Envoy waits for a decision: the `timeout` of its rate limit filter. */
  readonly envoyTimeoutMs: number
}

/**
 * The share of Envoy's timeout within which the backend must answer. The rest is for the network between
 * Envoy and the service.
 */
const deadlineShare = 0.75

export function rateLimitWorkload(options: RateLimitWorkloadOptions): Workload {
  return {
    name: 'ratelimit',
    service: 'ratelimit',
    replicas: options.replicas,
    ports: [
      { name: 'grpc', port: options.grpcPort },
      { name: 'http', port: options.httpPort },
    ],
    stopGraceMs: options.stopGraceMs,
    env: {
      CONFIG_TYPE: 'GRPC_XDS_SOTW',
      ...feedClientEnv(options.feedAddress),
      GRPC_PORT: `${options.grpcPort}`,
      PORT: `${options.httpPort}`,
      LOG_LEVEL: options.logLevel,
      USE_PUSHSTATS: 'false',
      DISABLE_STATS: 'true',
      ...backendSettings(options),
      ...options.env,
    },
  }
}

function backendSettings({ backend, envoyTimeoutMs }: RateLimitWorkloadOptions): Record<string, string> {
  if (backend.type === 'memory') return { BACKEND_TYPE: 'memory' }
  return {
    BACKEND_TYPE: 'redis',
    BACKEND_DEADLINE: `${Math.max(1, Math.floor(deadlineShare * envoyTimeoutMs))}ms`,
    KVSTORE_SOCKET_TYPE: 'tcp',
    KVSTORE_URL_FILE: backend.urlFile,
  }
}

export const rateLimitInCluster: ClusterService = {
  field: 'rateLimit',
  workload,
  problems({ rateLimit: { env, pods } }) {
    // The values of other variables are in Secrets and ConfigMaps.
    const written = pods.extraEnv.filter(({ value }) => typeof value === 'string')
    const extraEnv = Object.fromEntries(written.map(({ name, value }) => [`${name}`, `${value}`]))
    return Object.entries({ env, 'pods.extraEnv': extraEnv }).flatMap(([field, texts]) =>
      settingsWithoutMetricsPort(texts).map(
        name =>
          `${field}: ${name}: "${texts[name]}" is not allowed: false, since probes use the port of the metrics`,
      ),
    )
  },
  addresses: ({ rateLimit: { grpcPort, httpPort } }, hostOf) => ({
    grpc: `${hostOf()}:${grpcPort}`,
    http: `http://${hostOf('http')}:${httpPort}`,
  }),
}

/**
 * Returns the workload of the rate limit service in a cluster. Settings in `rateLimit.env` take precedence
 * over all others.
 */
function workload(config: ClusterConfig, namespace: string): Workload {
  const { rateLimit, logLevel } = config
  const { backend, envoyTimeoutMs, grpcPort, httpPort, metricsPort } = rateLimit
  const env = { ...podEnv(config, namespace), ...ownEnv(metricsPort), ...rateLimit.env }
  const shared = rateLimitWorkload({
    replicas: rateLimit.replicas,
    backend: toSharedState(backend),
    envoyTimeoutMs,
    grpcPort,
    httpPort,
    feedAddress: formatFeedAddress(config, namespace),
    logLevel,
    stopGraceMs: rateLimitEnv.drainMs(env) + closeMs,
    env,
  })
  return {
    ...shared,
    secretFiles: makeSecretFiles(config, backend, 'redis'),
    ports: [
      { name: 'grpc', port: grpcPort, reach: 'each' },
      { name: 'http', port: httpPort, reach: 'any' },
      { name: 'metrics', port: metricsPort, reach: 'pods' },
    ],
    // Probes use the metrics port, because it is open from the start. The ports for calls open only when the
    // process can accept calls.
    probes: {
      ready: { port: 'metrics', path: '/healthcheck?draining=ok' },
      alive: { port: 'metrics', path: '/livez' },
    },
  }
}

function ownEnv(metricsPort: number): Readonly<Record<string, string>> {
  return {
    USE_PROMETHEUS: 'true',
    PROMETHEUS_ADDR: `:${metricsPort}`,
    DISABLE_STATS: 'false',
    // An HTTP/2 connection would otherwise keep a caller at one pod, and callers would not find new pods.
    GRPC_MAX_CONNECTION_AGE: '5m',
    GRPC_MAX_CONNECTION_AGE_GRACE: '1m',
    DRAIN_TIMEOUT: '10s',
  }
}
