import { join } from 'node:path'
import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { SecretFiles, ServicePort, Workload } from '../../translated-types.ts'
import { closeMs, feedAddressOf, podEnv, secretFilesOf, sharedStateOf } from '../pod-env.ts'
import type { ClusterService } from '../service.ts'
import { brokerEnv } from './broker-env.ts'
import { brokerWorkload } from './broker-workload.ts'

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

/** Returns the workload of the broker in a cluster. The settings in `broker.env` take precedence. */
function workload(config: ClusterConfig, namespace: string): Workload {
  const { broker, logLevel, name } = config
  const { autoscaling, streamLog, grpcPort, metricsPort } = broker
  const env = { ...podEnv(config, namespace), ...ownEnv(broker), ...broker.env }
  const shared = brokerWorkload({
    replicas: broker.replicas,
    streamLog: sharedStateOf(streamLog),
    grpcPort,
    feedAddress: feedAddressOf(config, namespace),
    logLevel,
    stopGraceMs: brokerEnv.drainMs(env) + closeMs,
    // Installations that share a Redis may have streams with equal ids, and must not mix them up.
    env: { ...(streamLog.type === 'redis' && { REDIS_KEY_PREFIX: `${namespace}/${name}` }), ...env },
  })
  const { enabled: isAutoscaled, ...scaling } = autoscaling
  return {
    ...shared,
    ...(isAutoscaled && { autoscaling: scaling }),
    secretFiles: [
      ...secretFilesOf(config, streamLog, 'broker.streamLog.urlSecret or redis'),
      ...filesOf(broker),
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

/** The certificates and the tokens, which pods read again when they change. */
function filesOf({ tlsSecret, admin }: Plan): readonly SecretFiles[] {
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
    // A caller finds new pods with its next stream; running streams are not ended for that.
    GRPC_MAX_CONNECTION_AGE: '30m',
    GRPC_MAX_CONNECTION_AGE_GRACE: '12h',
    // A longer stream continues at another pod, because its consumers send their position.
    DRAIN_TIMEOUT: '20s',
  }
}
