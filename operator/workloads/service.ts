import type { ClusterConfig } from '@tollway/crds/cluster-config.ts'
import type { OwnPorts, Workload } from '../model.ts'
import type { HostOptions } from './host-option.ts'
import type { ServiceEnv } from './service-env.ts'

/** A service that the operator runs. `Config` has those options of `tollway run` that the service reads. */
export interface Service<Config> {
  readonly env: ServiceEnv
  readonly onHost: HostService<Config>
  readonly inCluster: ClusterService
}

export interface HostService<Config> {
  readonly program: Program
  readonly options: HostOptions
  /** Returns the number of processes; 0 if the service is switched off. */
  processes(config: Config): number
  /** Why the service is switched off if `processes` returns 0, for people: `--broker-replicas is 0`. */
  readonly offBy?: string
  /** Returns the workload. Called only if `processes` returns more than 0. */
  workload(config: Config, facts: HostFacts): Workload
  /** For each port name, the field of `options` that sets the port. */
  readonly portFields: Readonly<Record<string, string>>
  /** The fields of `options` with the ports that all processes share. */
  readonly sharedPorts: readonly string[]
  /**
   * Returns the ports that only the process with this index has. The first process has the configured ports.
   * Later processes have higher ones, so that ports never collide.
   */
  ownPorts(config: Config, index: number): OwnPorts
  /**
   * Returns the addresses for callers, by their names in the status report.
   *
   * @param host the host of the addresses, in brackets if it is an IPv6 address
   */
  addresses(config: Config, host: string): Readonly<Record<string, string>>
  /**
   * What the processes share, for messages: `counters`. It is kept in Redis if `sharesRedis` returns true.
   */
  readonly state: string
  sharesRedis(config: Config): boolean
  /**
   * Returns conflicts between options: `field` cannot be combined with `with`; `problem` is the text between
   * them.
   */
  problems?(
    config: Config,
  ): readonly { readonly field: string; readonly problem: string; readonly with: string }[]
  /** The time limit from the first start until all processes are ready. */
  readonly firstReadyMs: number
}

interface Program {
  /** Must be a literal URL, so that a bundler finds the file. */
  readonly main: URL
  readonly options: readonly string[]
  readonly env?: Readonly<Record<string, string>>
}

/** Values that the operator of one machine chooses, and that services need. */
export interface HostFacts {
  /** The address of the feed, as `host:port`. */
  readonly feedAddress: string
  /** The address of the rate limit service, as `host:port`. */
  readonly rateLimitAddress: string
  readonly sharedState: SharedState
  readonly stateDir: string
  /** The file with the token that authorises the operator to provision merchants. */
  readonly provisionTokenFile: string
}

export interface ClusterService {
  readonly field: 'rateLimit' | 'broker' | 'payments'
  workload(config: ClusterConfig, namespace: string): Workload
  /** Returns why pods could not run with the configured settings. Each problem starts with the field below `field`. */
  problems?(config: ClusterConfig): readonly string[]
  /**
   * Returns the addresses for callers, by name: `http` -> `http://tollway-ratelimit-http.tollway.svc:8080`.
   *
   * @param hostOf returns the DNS name of the workload's Service; with a port name, of the Service for that
   *   port
   */
  addresses(
    config: ClusterConfig,
    hostOf: (port?: string) => string,
    namespace: string,
  ): Readonly<Record<string, string>>
}

/** How long a process on the same machine may take after the drain to close its feed and its state. */
export const closeOnHostMs = 3_000

/** Callers on the same machine notice at once that a process is ending, so the delay can be short. */
export const hostDrainDelay = { DRAIN_DELAY: '200ms' } as const

/**
 * Where a service keeps its state: in the memory of each process, or in a Redis. The address of the Redis is
 * in a file, because it may contain a password.
 */
export type SharedState = { readonly type: 'memory' } | { readonly type: 'redis'; readonly urlFile: string }

export interface WorkloadOptions {
  readonly replicas: number
  readonly grpcPort: number
  /** The address of the feed, as `host:port`. */
  readonly feedAddress: string
  readonly logLevel: string
  /** The time limit from SIGTERM to the end of a process. */
  readonly stopGraceMs: number
  /** Settings of the service. They take precedence over the other options. */
  readonly env: Readonly<Record<string, string>>
}
