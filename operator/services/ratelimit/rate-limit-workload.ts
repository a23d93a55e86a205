import type { Workload } from '../../translated-types.ts'
import { feedClientEnv } from '../feed-client-env.ts'
import type { SharedState, WorkloadOptions } from '../workload-options.ts'

/** The options of the workload of the rate limit service. */
export interface RateLimitWorkloadOptions extends WorkloadOptions {
  /** The store of the counters. */
  readonly backend: SharedState
  readonly httpPort: number
  /** How long Envoy waits for a decision: the `timeout` of its rate limit filter. */
  readonly envoyTimeoutMs: number
}

/**
 * The share of Envoy's timeout for the backend. The rest is for the network between Envoy and the service.
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
