import type { ClusterConfig, PodShape } from '@tollway/crds/cluster-config.ts'
import type { ServiceName, Workload } from '../ir.ts'
import { brokerEnv } from './broker/broker-env.ts'
import { clusterBrokerWorkload } from './broker/cluster-broker-workload.ts'
import { clusterPaymentsWorkload, paymentAddressesOf } from './payments/cluster-payments-workload.ts'
import { paymentsEnv } from './payments/payments-env.ts'
import { clusterRateLimitWorkload } from './ratelimit/cluster-rate-limit-workload.ts'
import { rateLimitEnv } from './ratelimit/rate-limit-env.ts'
import type { ServiceEnv } from './service-env.ts'

/** All that the operator of a cluster knows of one of the services that it runs. */
export interface ClusterService {
  readonly env: ServiceEnv
  /** The name of its section in the configuration. */
  readonly field: 'rateLimit' | 'broker' | 'payments'
  workload(config: ClusterConfig, namespace: string): Workload
  /**
   * Where callers find it, by what they call: `http` -> `http://tollway-ratelimit-http.tollway.svc:8080`.
   *
   * @param hostOf the name of a Service of it, that with an address where the port is named
   */
  addresses(
    config: ClusterConfig,
    hostOf: (port?: string) => string,
    namespace: string,
  ): Readonly<Record<string, string>>
}

export const clusterServices: Readonly<Record<ServiceName, ClusterService>> = {
  ratelimit: {
    env: rateLimitEnv,
    field: 'rateLimit',
    workload: clusterRateLimitWorkload,
    addresses: ({ rateLimit: { grpcPort, httpPort } }, hostOf) => ({
      grpc: `${hostOf()}:${grpcPort}`,
      http: `http://${hostOf('http')}:${httpPort}`,
    }),
  },
  broker: {
    env: brokerEnv,
    field: 'broker',
    workload: clusterBrokerWorkload,
    addresses: ({ broker: { grpcPort, tlsSecret, admin } }, hostOf) => ({
      broker: `${hostOf()}:${grpcPort}`,
      ...(admin.enabled && {
        brokerAdmin: `${tlsSecret.name === '' ? 'http' : 'https'}://${hostOf('admin')}:${admin.port}`,
      }),
    }),
  },
  payments: {
    env: paymentsEnv,
    field: 'payments',
    workload: clusterPaymentsWorkload,
    addresses(config, _, namespace) {
      const { baseUrl, payPageUrl } = paymentAddressesOf(config, namespace)
      return { payments: baseUrl, payPage: payPageUrl }
    },
  },
}

export function podShapeOf(config: ClusterConfig, service: ServiceName): PodShape {
  const { podSecurityContext, containerSecurityContext } = config
  return { ...config[clusterServices[service].field].pods, podSecurityContext, containerSecurityContext }
}

/** The workloads of all services, and whether each shall run. */
export function clusterWorkloads(
  config: ClusterConfig,
  namespace: string,
): readonly { readonly workload: Workload; readonly enabled: boolean }[] {
  return Object.values(clusterServices).map(({ workload, field }) => ({
    workload: workload(config, namespace),
    enabled: config[field].enabled,
  }))
}

/** Returns why a service does not run, with the value to change; undefined if it is enabled. */
export function switchedOff(config: ClusterConfig, service: string): string | undefined {
  const off = Object.entries(clusterServices).find(
    ([name, { field }]) => name === service && !config[field].enabled,
  )
  return off && `No process is to enforce it: ${off[1].field}.enabled of the chart's values is false`
}

/** Returns the problems of the settings in the configuration, each with its field. */
export function judgeServiceSettings(config: ClusterConfig): readonly string[] {
  return Object.values(clusterServices).flatMap(({ env, field }) =>
    env.judge(config[field].env, 'cluster').map(problem => `${field}.env: ${problem}`),
  )
}
