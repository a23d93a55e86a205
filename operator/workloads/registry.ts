import type { ClusterConfig, PodShape } from '@tollway/crds/cluster-config.ts'
import type { ServiceName, Workload } from '../model.ts'
import { brokerEnv, brokerInCluster, brokerOnHost } from './broker.ts'
import { commonOptions, type HostConfig } from './host-option.ts'
import { paymentsEnv, paymentsInCluster, paymentsOnHost } from './payments.ts'
import { rateLimitEnv, rateLimitInCluster, rateLimitOnHost } from './rate-limit.ts'
import type { Service } from './service.ts'

export const serviceOptions = {
  ...rateLimitOnHost.options,
  ...brokerOnHost.options,
  ...paymentsOnHost.options,
  ...commonOptions,
}

type ServicesConfig = HostConfig<typeof serviceOptions>

export const services: Readonly<Record<ServiceName, Service<ServicesConfig>>> = {
  ratelimit: { env: rateLimitEnv, onHost: rateLimitOnHost, inCluster: rateLimitInCluster },
  broker: { env: brokerEnv, onHost: brokerOnHost, inCluster: brokerInCluster },
  payments: { env: paymentsEnv, onHost: paymentsOnHost, inCluster: paymentsInCluster },
}

export function makePodShape(config: ClusterConfig, service: ServiceName): PodShape {
  const { podSecurityContext, containerSecurityContext, commonLabels, commonAnnotations } = config
  const { pods, objects } = config[services[service].inCluster.field]
  return { ...pods, objects, podSecurityContext, containerSecurityContext, commonLabels, commonAnnotations }
}

export function clusterWorkloads(
  config: ClusterConfig,
  namespace: string,
): readonly { readonly workload: Workload; readonly enabled: boolean }[] {
  return Object.values(services).map(({ inCluster: { workload, field } }) => {
    const { enabled, autoscaling } = config[field]
    const { enabled: isAutoscaled, ...scaling } = autoscaling
    return {
      workload: { ...workload(config, namespace), ...(isAutoscaled && { autoscaling: scaling }) },
      enabled,
    }
  })
}

/** Returns why a service does not run, and which value of the chart to change; undefined if it is enabled. */
export function explainDisabledInCluster(config: ClusterConfig, service: string): string | undefined {
  const off = Object.entries(services).find(
    ([name, { inCluster }]) => name === service && !config[inCluster.field].enabled,
  )
  return (
    off && `No process is to enforce it: ${off[1].inCluster.field}.enabled of the chart's values is false`
  )
}

/** Validates the settings in the configuration. Each problem starts with the field. */
export function validateServiceSettings(config: ClusterConfig): readonly string[] {
  return Object.values(services).flatMap(({ env, inCluster }) =>
    [
      ...env.validate(config[inCluster.field].env, 'cluster').map(problem => `env: ${problem}`),
      ...(inCluster.problems?.(config) ?? []),
    ].map(problem => `${inCluster.field}.${problem}`),
  )
}
