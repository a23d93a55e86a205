import { join } from 'node:path'
import { nodeOptions } from '@tollway/broker/node-options.ts'
import { settings } from '@tollway/broker/settings.ts'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { SecretFiles, ServicePort, Workload } from '../model.ts'
import {
  type CommonConfig,
  type HostConfig,
  maxReplicas,
  numberOption,
  portOption,
  settingsOption,
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
  makeSecretFiles,
  podEnv,
  toSharedState,
} from './service-env.ts'

export const brokerEnv = createServiceEnv({
  settings,
  decided: [
    { setting: settings.grpcHost, machine: 'host' },
    { setting: settings.grpcPort, machine: 'brokerPort', cluster: 'broker.grpcPort' },
    { setting: settings.debugHost },
    { setting: settings.debugPort, machine: 'brokerDebugPort' },
    { setting: settings.adminHost },
    { setting: settings.adminPort, cluster: 'broker.admin.port' },
    { setting: settings.adminTokenFile, cluster: 'broker.admin.tokenSecret' },
    { setting: settings.metricsHost },
    { setting: settings.metricsPort, machine: 'brokerDebugPort', cluster: 'broker.metricsPort' },
    { setting: settings.reusePort },
    { setting: settings.routes },
    { setting: settings.xdsServer, machine: 'feedPort', cluster: 'feedPort' },
    { setting: settings.xdsNodeId },
    { setting: settings.xdsNodeMetadata },
    { setting: settings.streamLog, machine: 'redisUrl', cluster: 'broker.streamLog' },
    { setting: settings.redisUrl, machine: 'redisUrl', cluster: 'broker.streamLog' },
  ],
})

const options = {
  brokerReplicas: numberOption({
    flag: 'broker-replicas',
    fallback: 1,
    min: 0,
    max: maxReplicas,
    help: 'the number of brokers, 0 to run none; several share their streams in a Redis',
  }),
  brokerPort: portOption({
    flag: 'broker-port',
    fallback: 8082,
    help: 'the port of animation streams by gRPC',
  }),
  brokerDebugPort: portOption({
    flag: 'broker-debug-port',
    fallback: 6072,
    help: 'the debug port of the first broker, on loopback',
  }),
  brokerEnv: settingsOption(brokerEnv, {
    flag: 'broker-env',
    help: 'a setting of the broker; repeat it for each setting',
  }),
}

type Config = HostConfig<typeof options> & CommonConfig

export const brokerOnHost = {
  program: { main: new URL('../../services/broker/main.ts', import.meta.url), options: nodeOptions },
  options,
  processes: ({ brokerReplicas }) => brokerReplicas,
  offBy: '--broker-replicas is 0',
  portFields: { grpc: 'brokerPort', debug: 'brokerDebugPort' },
  sharedPorts: ['brokerPort'],
  ownPorts: ({ brokerDebugPort }, index) => ({
    debug: index === 0 ? brokerDebugPort : brokerDebugPort + 128 + index,
  }),
  addresses: ({ brokerPort }, host) => ({ broker: `${host}:${brokerPort}` }),
  state: 'streams',
  // Streams are shared through Redis only if there are several processes. They end with the call of their
  // producer, so one process needs no Redis.
  sharesRedis: ({ brokerReplicas }) => brokerReplicas > 1,
  workload(config, { sharedState, feedAddress }) {
    // Consumers that wait for streams would otherwise delay the end of a process for the whole default of
    // DRAIN_TIMEOUT.
    const env = { ...hostDrainDelay, DRAIN_TIMEOUT: '2s', ...config.brokerEnv }
    return brokerWorkload({
      replicas: config.brokerReplicas,
      streamLog: sharedState,
      grpcPort: config.brokerPort,
      feedAddress,
      logLevel: config.logLevel,
      stopGraceMs: brokerEnv.drainMs(env) + closeOnHostMs,
      env,
    })
  },
  firstReadyMs: 30_000,
} as const satisfies HostService<Config>

interface BrokerWorkloadOptions extends WorkloadOptions {
  /** Where streams are kept. Streams in memory are visible only to callers of the process that has them. */
  readonly streamLog: SharedState
}

export function brokerWorkload(options: BrokerWorkloadOptions): Workload {
  return {
    name: 'broker',
    service: 'broker',
    replicas: options.replicas,
    // An HTTP/2 connection would keep a caller at one replica, so callers resolve the address of each
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

const tlsFolder = '/etc/tollway/tls'
const adminFolder = '/etc/tollway/admin'

export const brokerInCluster: ClusterService = {
  field: 'broker',
  workload,
  addresses: ({ broker: { grpcPort, tlsSecret, admin } }, hostOf) => ({
    broker: `${hostOf()}:${grpcPort}`,
    ...(admin.enabled && {
      brokerAdmin: `${tlsSecret.name === '' ? 'http' : 'https'}://${hostOf('admin')}:${admin.port}`,
    }),
  }),
}

/**
 * Returns the workload of the broker in a cluster. Settings in `broker.env` take precedence over all others.
 */
function workload(config: ClusterConfig, namespace: string): Workload {
  const { broker, logLevel, name } = config
  const { streamLog, grpcPort, metricsPort } = broker
  const env = { ...podEnv(config, namespace), ...ownEnv(broker), ...broker.env }
  const shared = brokerWorkload({
    replicas: broker.replicas,
    streamLog: toSharedState(streamLog),
    grpcPort,
    feedAddress: formatFeedAddress(config, namespace),
    logLevel,
    stopGraceMs: brokerEnv.drainMs(env) + closeMs,
    // Installations that share a Redis may have streams with equal ids. The prefix keeps them apart.
    env: { ...(streamLog.type === 'redis' && { REDIS_KEY_PREFIX: `${namespace}/${name}` }), ...env },
  })
  return {
    ...shared,
    secretFiles: [
      ...makeSecretFiles(config, streamLog, 'broker.streamLog.urlSecret or redis'),
      ...listSecretFiles(broker),
    ],
    ports: [...shared.ports, ...adminPorts(broker), { name: 'metrics', port: metricsPort, reach: 'pods' }],
    probes: {
      ready: { port: 'metrics', path: '/healthcheck?draining=ok' },
      alive: { port: 'metrics', path: '/livez' },
    },
  }
}

type Plan = ClusterConfig['broker']

function adminPorts({ admin }: Plan): readonly ServicePort[] {
  return admin.enabled ? [{ name: 'admin', port: admin.port, reach: 'any' }] : []
}

/**
 * Returns the Secrets with the TLS certificate and the admin token. Pods read both again when they change.
 */
function listSecretFiles({ tlsSecret, admin }: Plan): readonly SecretFiles[] {
  const tls = { name: 'tls', secretName: tlsSecret.name, keys: ['tls.crt', 'tls.key'], folder: tlsFolder }
  const { name: secretName, key } = admin.tokenSecret
  const tokens = { name: 'admin', secretName, keys: [key], folder: adminFolder }
  return [
    ...(tlsSecret.name === '' ? [] : [{ ...tls, namedBy: 'broker.tlsSecret', isReread: true } as const]),
    ...(admin.enabled ? [{ ...tokens, namedBy: 'broker.admin.tokenSecret', isReread: true } as const] : []),
  ]
}

function ownEnv({ metricsPort, tlsSecret, admin }: Plan): Readonly<Record<string, string>> {
  return {
    ...(tlsSecret.name !== '' && {
      GRPC_SERVER_USE_TLS: 'true',
      GRPC_SERVER_TLS_CERT: join(tlsFolder, 'tls.crt'),
      GRPC_SERVER_TLS_KEY: join(tlsFolder, 'tls.key'),
    }),
    ...(admin.enabled && {
      ADMIN_PORT: `${admin.port}`,
      ADMIN_TOKEN_FILE: join(adminFolder, admin.tokenSecret.key),
    }),
    METRICS_PORT: `${metricsPort}`,
    // Connections are closed to make callers find new pods. A running stream may continue on its connection
    // for 12 h.
    GRPC_MAX_CONNECTION_AGE: '30m',
    GRPC_MAX_CONNECTION_AGE_GRACE: '12h',
    // A stream that outlasts the drain continues at another pod, to which its consumers send their position.
    DRAIN_TIMEOUT: '20s',
  }
}
