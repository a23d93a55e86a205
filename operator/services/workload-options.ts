/**
 * Where a service keeps what it knows: each process in its own memory, or all of them in the Redis whose
 * address is in this file, because it may contain a password.
 */
export type SharedState = { readonly type: 'memory' } | { readonly type: 'redis'; readonly urlFile: string }

/** What decides how any of our services runs. */
export interface WorkloadOptions {
  readonly replicas: number
  readonly grpcPort: number
  /** `host:port` of the feed. */
  readonly feedAddress: string
  readonly logLevel: string
  /** How long a process may take from SIGTERM to its end. */
  readonly stopGraceMs: number
  /** Settings of the service that hold over all of the above. */
  readonly env: Readonly<Record<string, string>>
}
