import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { OwnPorts, Workload } from '../model.ts'
import type { HostOptions } from './host-option.ts'
import type { ServiceEnv } from './service-env.ts'

/** A service that the operator runs. `Config` has the options of `tollway run` that the service reads. */
export interface Service<Config> {
  readonly env: ServiceEnv
  readonly onHost: HostService<Config>
  readonly inCluster: ClusterService
}

/** A service on one machine. */
export interface HostService<Config> {
  readonly program: Program
  readonly options: HostOptions
  /** The number of processes; 0 if the service is switched off. */
  processes(config: Config): number
  /** Why the service is switched off, for a person: `--broker-replicas is 0`. */
  readonly offBy?: string
  /** Returns the workload. Called only if there are processes. */
  workload(config: Config, facts: HostFacts): Workload
  /** The field of `options` that sets each port, by the name of the port. */
  readonly portFields: Readonly<Record<string, string>>
  /** The fields of the ports that all processes share. */
  readonly sharedPorts: readonly string[]
  /**
   * Returns the ports of one process alone. The first process has the well-known ports; the ports of the
   * others are higher, so that they do not collide.
   */
  ownPorts(config: Config, index: number): OwnPorts
  /**
   * Returns the addresses for callers, by their names in the status report.
   *
   * @param host the host of the addresses, in brackets if it is an IPv6 address
   */
  addresses(config: Config, host: string): Readonly<Record<string, string>>
  /** The shared state of the processes: `counters`. It is in Redis if `sharesRedis` returns true. */
  readonly state: string
  sharesRedis(config: Config): boolean
  /** Returns problems of options that exclude each other, as the field and the text after it. */
  problems?(
    config: Config,
  ): readonly { readonly field: string; readonly problem: string; readonly with: string }[]
  /** The time limit of the first start until all processes are ready. */
  readonly firstReadyMs: number
}

/** A program of the operator's package. */
interface Program {
  /** A literal URL, so that a bundler finds the file. */
  readonly main: URL
  /** The options of Node. */
  readonly options: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** The settings of all services that the operator of one machine decides. */
export interface HostFacts {
  /** `host:port` of the feed. */
  readonly feedAddress: string
  /** `host:port` of the rate limit service. */
  readonly rateLimitAddress: string
  /** The store that the processes of the service share. */
  readonly sharedState: SharedState
  readonly stateDir: string
  /** The file with the token with which the operator provisions merchants. */
  readonly provisionTokenFile: string
}

/** A service in a cluster. */
export interface ClusterService {
  /** The section of the configuration. */
  readonly field: 'rateLimit' | 'broker' | 'payments'
  workload(config: ClusterConfig, namespace: string): Workload
  /**
   * Returns the addresses for callers by their names: `http` ->
   * `http://tollway-ratelimit-http.tollway.svc:8080`.
   *
   * @param hostOf returns the name of a Service of the workload; with a port, of the Service for that port
   */
  addresses(
    config: ClusterConfig,
    hostOf: (port?: string) => string,
    namespace: string,
  ): Readonly<Record<string, string>>
}

/** The time limit after the drain in which a process on the same machine closes its feed and its state. */
export const closeOnHostMs = 3_000

/** Callers on the same machine notice at once that a process is ending. */
export const hostDrainDelay = { DRAIN_DELAY: '200ms' } as const

/**
 * The store of a service's state: the memory of each process, or the Redis whose address is in this file,
 * because it may contain a password.
 */
export type SharedState = { readonly type: 'memory' } | { readonly type: 'redis'; readonly urlFile: string }

/** The options that the workloads of all services have. */
export interface WorkloadOptions {
  readonly replicas: number
  readonly grpcPort: number
  /** `host:port` of the feed. */
  readonly feedAddress: string
  readonly logLevel: string
  /** The time limit of a process from SIGTERM to its end. */
  readonly stopGraceMs: number
  /** Settings of the service that take precedence over all of the above. */
  readonly env: Readonly<Record<string, string>>
}
