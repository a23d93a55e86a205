import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { Workload } from '../../translated-types.ts'
import { closeMs, feedAddressOf, podEnv, secretFilesOf, sharedStateOf } from '../pod-env.ts'
import type { ClusterService } from '../service.ts'
import { rateLimitEnv } from './rate-limit-env.ts'
import { rateLimitWorkload } from './rate-limit-workload.ts'

export const rateLimitInCluster: ClusterService = {
  field: 'rateLimit',
  workload,
  addresses: ({ rateLimit: { grpcPort, httpPort } }, hostOf) => ({
    grpc: `${hostOf()}:${grpcPort}`,
    http: `http://${hostOf('http')}:${httpPort}`,
  }),
}

/**
 * Returns the workload of the rate limit service for a configuration. The settings in its `env` take
 * precedence over all others.
 */
function workload(config: ClusterConfig, namespace: string): Workload {
  const { rateLimit, logLevel } = config
  const { autoscaling, backend, envoyTimeoutMs, grpcPort, httpPort, metricsPort } = rateLimit
  const env = { ...podEnv(config, namespace), ...ownEnv(metricsPort), ...rateLimit.env }
  const shared = rateLimitWorkload({
    replicas: rateLimit.replicas,
    backend: sharedStateOf(backend),
    envoyTimeoutMs,
    grpcPort,
    httpPort,
    feedAddress: feedAddressOf(config, namespace),
    logLevel,
    stopGraceMs: rateLimitEnv.drainMs(env) + closeMs,
    env,
  })
  const { enabled: isAutoscaled, ...scaling } = autoscaling
  return {
    ...shared,
    ...(isAutoscaled && { autoscaling: scaling }),
    secretFiles: secretFilesOf(config, backend, 'redis'),
    ports: [
      { name: 'grpc', port: grpcPort, reach: 'each' },
      { name: 'http', port: httpPort, reach: 'any' },
      { name: 'metrics', port: metricsPort, reach: 'pods' },
    ],
    // The ports for calls open only when the process can take calls; the port of the metrics is open from the
    // start.
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
    // An HTTP/2 connection is long-lived and would pin a caller to one pod; callers also need to find new
    // pods.
    GRPC_MAX_CONNECTION_AGE: '5m',
    GRPC_MAX_CONNECTION_AGE_GRACE: '1m',
    DRAIN_TIMEOUT: '10s',
  }
}
