import type { Workload } from '../../translated-types.ts'
import { feedClientEnv } from '../feed-client-env.ts'
import type { SharedState, WorkloadOptions } from '../workload-options.ts'

/** The options of the broker's workload. */
export interface BrokerWorkloadOptions extends WorkloadOptions {
  /** The store of streams. Streams in memory are visible only to callers of the process that has them. */
  readonly streamLog: SharedState
}

export function brokerWorkload(options: BrokerWorkloadOptions): Workload {
  return {
    name: 'broker',
    service: 'broker',
    replicas: options.replicas,
    // An HTTP/2 connection is long-lived and would pin a caller to one replica, so callers resolve each
    // replica.
    ports: [{ name: 'grpc', port: options.grpcPort, reach: 'each' }],
    stopGraceMs: options.stopGraceMs,
    env: {
      ROUTES: 'feed',
      ...feedClientEnv(options.feedAddress),
      GRPC_PORT: `${options.grpcPort}`,
      LOG_LEVEL: options.logLevel,
      ...streamLogSettings(options.streamLog),
      ...options.env,
    },
  }
}

function streamLogSettings(streamLog: SharedState): Record<string, string> {
  if (streamLog.type === 'memory') return { STREAM_LOG: 'memory' }
  return { STREAM_LOG: 'redis', REDIS_URL_FILE: streamLog.urlFile }
}
