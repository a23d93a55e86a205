import { isIPv6 } from 'node:net'
import { settings } from '@tollway/payments/settings.ts'
import type { ServiceName, Workload } from '../../ir.ts'
import { brokerEnv } from '../../services/broker/broker-env.ts'
import { brokerWorkload } from '../../services/broker/broker-workload.ts'
import { paymentsEnv } from '../../services/payments/payments-env.ts'
import { paymentsWorkload } from '../../services/payments/payments-workload.ts'
import { rateLimitEnv } from '../../services/ratelimit/rate-limit-env.ts'
import { rateLimitWorkload } from '../../services/ratelimit/rate-limit-workload.ts'
import type { SharedState } from '../../services/workload-options.ts'
import type { OperatorConfig } from './operator-config.ts'

/** After the drain a process closes its feed and its state, and is gone. */
const closeMs = 3_000

/** Callers on the same machine notice at once. */
const drainDelay = { DRAIN_DELAY: '200ms' } as const

export interface LocalWorkloadsOptions {
  /** `host:port` of the feed. */
  readonly feedAddress: string
  /** The file with the address of the Redis, for the services whose processes share one. */
  readonly redisUrlFile: string
  /** Where the payments service keeps its database. */
  readonly stateDir: string
  /** The file with the token by which the operator provisions merchants. */
  readonly provisionTokenFile: string
}

/** The services that are to run on this machine. */
export function localWorkloads(config: OperatorConfig, options: LocalWorkloadsOptions): readonly Workload[] {
  return [
    rateLimitProcesses(config, options),
    ...(config.brokerReplicas === 0 ? [] : [brokerProcesses(config, options)]),
    ...(config.payments ? [paymentsProcess(config, options)] : []),
  ]
}

/** The services whose processes share a Redis. */
export function redisUsers({ replicas, redisUrl, brokerReplicas }: OperatorConfig): readonly ServiceName[] {
  return [
    // In a Redis that was named, counters survive a restart of the process; a stream ends with its producer's
    // call.
    ...(replicas > 1 || redisUrl !== '' ? (['ratelimit'] as const) : []),
    ...(brokerReplicas > 1 ? (['broker'] as const) : []),
  ]
}

function stateOf(service: ServiceName, config: OperatorConfig, urlFile: string): SharedState {
  return redisUsers(config).includes(service) ? { type: 'redis', urlFile } : { type: 'memory' }
}

function rateLimitProcesses(config: OperatorConfig, options: LocalWorkloadsOptions): Workload {
  const metrics = config.metrics ? { USE_PULLSTATS: 'true', DISABLE_STATS: 'false' } : {}
  const own = { ...drainDelay, ...metrics }
  const env = { ...own, ...config.rateLimitEnv }
  return rateLimitWorkload({
    replicas: config.replicas,
    backend: stateOf('ratelimit', config, options.redisUrlFile),
    envoyTimeoutMs: config.envoyTimeoutMs,
    grpcPort: config.grpcPort,
    httpPort: config.httpPort,
    feedAddress: options.feedAddress,
    logLevel: config.logLevel,
    stopGraceMs: rateLimitEnv.drainMs(env) + closeMs,
    env,
  })
}

function brokerProcesses(config: OperatorConfig, options: LocalWorkloadsOptions): Workload {
  // A consumer that waits for streams would hold up the end for as long as it is given.
  const env = { ...drainDelay, DRAIN_TIMEOUT: '2s', ...config.brokerEnv }
  return brokerWorkload({
    replicas: config.brokerReplicas,
    streamLog: stateOf('broker', config, options.redisUrlFile),
    grpcPort: config.brokerPort,
    feedAddress: options.feedAddress,
    logLevel: config.logLevel,
    stopGraceMs: brokerEnv.drainMs(env) + closeMs,
    env,
  })
}

/** Where a process of this machine reaches what listens on that address. */
function reachableHost(host: string): string {
  if (host === '0.0.0.0' || host === '::') return '127.0.0.1'
  return isIPv6(host) ? `[${host}]` : host
}

/** One, for its database is inside of it. */
function paymentsProcess(config: OperatorConfig, options: LocalWorkloadsOptions): Workload {
  const env = { ...drainDelay, DRAIN_TIMEOUT: '5s', ...config.paymentsEnv }
  const workload = paymentsWorkload({
    replicas: 1,
    storage: { type: 'embedded', stateDir: options.stateDir },
    port: config.paymentsPort,
    provisionPort: config.paymentsProvisionPort,
    provisionAccess: { type: 'token', tokenFile: options.provisionTokenFile },
    rateLimit: {
      address: `${reachableHost(config.host)}:${config.grpcPort}`,
      domain: settings.rateLimitDomain.fallback,
    },
    logLevel: config.logLevel,
    stopGraceMs: paymentsEnv.drainMs(env) + closeMs,
    env,
  })
  // Ports for the operator alone are among the process's own ports on the loopback address.
  return { ...workload, ports: workload.ports.filter(({ callers }) => callers === undefined) }
}
