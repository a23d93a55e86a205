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
