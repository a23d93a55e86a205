import { join } from 'node:path'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { SecretFiles, Workload } from '../ir.ts'
import { drainMs } from '../standalone/rate-limit-env.ts'
import { type RateLimitBackend, rateLimitWorkload } from '../translate/rate-limit-workload.ts'
import { feedClientSecret, feedHost } from './names.ts'

/** Where a pod finds what is mounted into it. */
const feedFolder = '/etc/tollway/feed'
const redisFolder = '/etc/tollway/redis'

/** After the drain a process closes its feed and its counters, and is gone. */
const closeMs = 5_000

/**
 * The rate limit service as the configuration wants it. What stands in its `env` holds over all of this; who
 * runs it there knows why.
 */
export function clusterRateLimitWorkload(config: ClusterConfig, namespace: string): Workload {
  const { rateLimit, name, logLevel, feedPort } = config
  const { autoscaling, grpcPort, httpPort, metricsPort } = rateLimit
  const env = { ...podEnv(config, namespace), ...rateLimit.env }
  const workload = rateLimitWorkload({
    replicas: rateLimit.replicas,
    backend: backendOf(config),
    grpcPort,
    httpPort,
    feedAddress: `${feedHost(name, namespace)}:${feedPort}`,
    logLevel,
    stopGraceMs: drainMs(env) + closeMs,
    env,
  })
  const { minReplicas, maxReplicas, targetCpuPercent } = autoscaling
  return {
    ...workload,
    ...(autoscaling.enabled && { autoscaling: { minReplicas, maxReplicas, targetCpuPercent } }),
    secretFiles: secretFilesOf(config),
    ports: [
      { name: 'grpc', port: grpcPort, reach: 'each' },
      { name: 'http', port: httpPort, reach: 'any' },
      { name: 'metrics', port: metricsPort, reach: 'pods' },
    ],
    probes: {
      ready: { port: 'http', path: '/healthcheck' },
      alive: { port: 'metrics', path: '/livez' },
    },
  }
}

function podEnv({ name, rateLimit }: ClusterConfig, namespace: string): Readonly<Record<string, string>> {
  return {
    CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
    CONFIG_GRPC_XDS_SERVER_TLS_SAN: feedHost(name, namespace),
    CONFIG_GRPC_XDS_SERVER_TLS_CACERT: join(feedFolder, 'ca.crt'),
    CONFIG_GRPC_XDS_CLIENT_TLS_CERT: join(feedFolder, 'tls.crt'),
    CONFIG_GRPC_XDS_CLIENT_TLS_KEY: join(feedFolder, 'tls.key'),
    // Anybody who reaches a pod could take profiles of it.
    DEBUG_HOST: '127.0.0.1',
    USE_PROMETHEUS: 'true',
    PROMETHEUS_ADDR: `:${rateLimit.metricsPort}`,
    DISABLE_STATS: 'false',
    // An HTTP/2 connection lasts, and would pin a caller to one pod; callers also need to find new ones.
    GRPC_MAX_CONNECTION_AGE: '5m',
    GRPC_MAX_CONNECTION_AGE_GRACE: '1m',
    // Callers that look their names up every few seconds must have noticed before calls are refused.
    DRAIN_DELAY: '10s',
    DRAIN_TIMEOUT: '10s',
  }
}

function backendOf({ rateLimit: { backend } }: ClusterConfig): RateLimitBackend {
  if (backend.type === 'memory') return { type: 'memory' }
  return { type: 'redis', urlFile: join(redisFolder, backend.urlSecret.key) }
}

function secretFilesOf({ name, rateLimit: { backend } }: ClusterConfig): readonly SecretFiles[] {
  const feed = { name: 'feed', secretName: feedClientSecret(name), folder: feedFolder }
  if (backend.type === 'memory') return [feed]
  const { name: secretName, key } = backend.urlSecret
  return [feed, { name: 'redis', secretName, keys: [key], folder: redisFolder }]
}
