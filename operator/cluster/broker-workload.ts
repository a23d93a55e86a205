import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { Workload } from '../ir.ts'
import { brokerEnv } from '../standalone/broker-env.ts'
import { brokerWorkload } from '../translate/broker-workload.ts'
import { closeMs, feedAddressOf, podEnv, secretFilesOf, sharedStateOf } from './pod-surroundings.ts'

/**
 * The broker as the configuration wants it. What stands in its `env` holds over all of this; who runs it there
 * knows why.
 */
export function clusterBrokerWorkload(config: ClusterConfig, namespace: string): Workload {
  const { broker, logLevel, name } = config
  const { autoscaling, streamLog, grpcPort, metricsPort } = broker
  const env = { ...podEnv(config, namespace), ...ownEnv(metricsPort), ...broker.env }
  const workload = brokerWorkload({
    replicas: broker.replicas,
    streamLog: sharedStateOf(streamLog),
    grpcPort,
    feedAddress: feedAddressOf(config, namespace),
    logLevel,
    stopGraceMs: brokerEnv.drainMs(env) + closeMs,
    // Installations that share a Redis have streams of the same ids, and must not mix them up.
    env: { ...(streamLog.type === 'redis' && { REDIS_KEY_PREFIX: `${namespace}/${name}` }), ...env },
  })
  const { minReplicas, maxReplicas, targetCpuPercent } = autoscaling
  return {
    ...workload,
    ...(autoscaling.enabled && { autoscaling: { minReplicas, maxReplicas, targetCpuPercent } }),
    secretFiles: secretFilesOf(config, streamLog),
    ports: [...workload.ports, { name: 'metrics', port: metricsPort, reach: 'pods' }],
    probes: {
      ready: { port: 'metrics', path: '/healthcheck' },
      alive: { port: 'metrics', path: '/livez' },
    },
  }
}

function ownEnv(metricsPort: number): Readonly<Record<string, string>> {
  return {
    METRICS_PORT: `${metricsPort}`,
    // A caller is to find new pods with its next stream; one that runs is not cut for that.
    GRPC_MAX_CONNECTION_AGE: '30m',
    GRPC_MAX_CONNECTION_AGE_GRACE: '12h',
    // A stream that lasts longer goes on at another pod: its consumers say how far they came.
    DRAIN_TIMEOUT: '20s',
  }
}
