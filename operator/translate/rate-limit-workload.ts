import type { Workload } from '../ir.ts'

/**
 * Counters of one process alone, or shared in the Redis whose address stands in this file: it may hold a
 * password.
 */
export type RateLimitBackend =
  | { readonly type: 'memory' }
  | { readonly type: 'redis'; readonly urlFile: string }

/** What decides how the rate limit service runs. */
export interface RateLimitWorkloadOptions {
  readonly replicas: number
  readonly backend: RateLimitBackend
  readonly grpcPort: number
  readonly httpPort: number
  /** `host:port` of the feed. */
  readonly feedAddress: string
  readonly logLevel: string
  /** How long a process may take from SIGTERM to its end. */
  readonly stopGraceMs: number
  /** Settings of the service that hold over all of the above. */
  readonly env: Readonly<Record<string, string>>
}

/** Our own pods wait less than the reference's defaults: the operator is near, and a limit must not lag. */
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
      CONFIG_GRPC_XDS_SERVER_URL: options.feedAddress,
      CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL: '200ms',
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '200ms',
      XDS_CLIENT_BACKOFF_MAX_INTERVAL: '3s',
      XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: `${64 * 1024 * 1024}`,
      GRPC_PORT: `${options.grpcPort}`,
      PORT: `${options.httpPort}`,
      LOG_LEVEL: options.logLevel,
      USE_PUSHSTATS: 'false',
      DISABLE_STATS: 'true',
      ...backendSettings(options.backend),
      ...options.env,
    },
  }
}

function backendSettings(backend: RateLimitBackend): Record<string, string> {
  if (backend.type === 'memory') return { BACKEND_TYPE: 'memory' }
  return { BACKEND_TYPE: 'redis', KVSTORE_SOCKET_TYPE: 'tcp', KVSTORE_URL_FILE: backend.urlFile }
}
