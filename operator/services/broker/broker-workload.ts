import type { Workload } from '../../ir.ts'
import { feedClientEnv } from '../feed-client-env.ts'
import type { SharedState, WorkloadOptions } from '../workload-options.ts'

/** What decides how the broker runs. */
export interface BrokerWorkloadOptions extends WorkloadOptions {
  /** Where streams are kept: those in memory are seen only by the callers of the process that has them. */
  readonly streamLog: SharedState
}

export function brokerWorkload(options: BrokerWorkloadOptions): Workload {
  return {
    name: 'broker',
    service: 'broker',
    replicas: options.replicas,
    // An HTTP/2 connection lasts, and would pin a caller to one replica: callers find each of them.
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
