import type { ServiceName } from '../translated-types.ts'
import { brokerEnv } from './broker/broker-env.ts'
import { brokerOnHost } from './broker/broker-on-host.ts'
import { brokerInCluster } from './broker/cluster-broker-workload.ts'
import { commonOptions } from './common-options.ts'
import type { HostConfig } from './host-option.ts'
import { paymentsInCluster } from './payments/cluster-payments-workload.ts'
import { paymentsEnv } from './payments/payments-env.ts'
import { paymentsOnHost } from './payments/payments-on-host.ts'
import { rateLimitInCluster } from './ratelimit/cluster-rate-limit-workload.ts'
import { rateLimitEnv } from './ratelimit/rate-limit-env.ts'
import { rateLimitOnHost } from './ratelimit/rate-limit-on-host.ts'
import type { Service } from './service.ts'

/** The options of `tollway run` for all services, by the fields of the configuration file. */
export const serviceOptions = {
  ...rateLimitOnHost.options,
  ...brokerOnHost.options,
  ...paymentsOnHost.options,
  ...commonOptions,
}

export type ServicesConfig = HostConfig<typeof serviceOptions>

/** The services that the operator runs. */
export const services: Readonly<Record<ServiceName, Service<ServicesConfig>>> = {
  ratelimit: { env: rateLimitEnv, onHost: rateLimitOnHost, inCluster: rateLimitInCluster },
  broker: { env: brokerEnv, onHost: brokerOnHost, inCluster: brokerInCluster },
  payments: { env: paymentsEnv, onHost: paymentsOnHost, inCluster: paymentsInCluster },
}
