import type { Workload } from '../model.ts'

/**
 * Runs workloads: in a cluster as Deployments, on one machine as processes. testing/provider.contract.ts
 * tests both.
 */
export interface Infrastructure {
  /**
   * Reconciles the replicas of the workload with its description. Resolves when that has begun, not when the
   * replicas are ready. Level-based: applying the same again changes nothing. A changed workload replaces its
   * replicas one after the other. Rejects with an `InfrastructureError` when the machine or cluster rejects
   * it, for example for a port in use.
   */
  apply(workload: Workload): Promise<void>
  /**
   * Ends every replica of the workload. Resolves when they have ended. Removing an unknown workload has no
   * effect.
   */
  remove(name: string): Promise<void>
  /** Returns the running replicas of the workload, in their order; empty if there is no such workload. */
  observe(name: string): readonly Replica[]
  /** Calls the listener after each change of the result of `observe` for any workload. */
  onChange(listener: (workload: string) => void): void
}

export interface Replica {
  /** The name: `ratelimit-0`; in a cluster that of the pod, which contains the workload's name. */
  readonly name: string
  /** The id of one start of the replica. Its feed client sends it as `uid` in node.metadata. */
  readonly uid: string
  /** Whether the replica accepts calls. */
  readonly ready: boolean
  /**
   * Why the replica is not ready, for people: `starting`, `exited with code 1, again in 2 s`. Empty when
   * ready.
   */
  readonly reason: string
  readonly restarts: number
  /** What only a change by a person removes; absent if the replica may become ready by itself. */
  readonly obstacle?: ReplicaObstacle
  /** Why its backend fails (Redis, memcached, a database); absent while the backend answers. */
  readonly backendProblem?: string
  /** The addresses for people: `debug` -> `http://127.0.0.1:6070`. */
  readonly addresses: Readonly<Record<string, string>>
}

/** A cause for which a replica does not become ready by itself. */
export interface ReplicaObstacle {
  /** The cause, for people: `there is no Secret payments-database with the key url`. */
  readonly cause: string
  /** What a person has to change: the image, the settings, a Secret, or the rest of the pod. */
  readonly of: 'image' | 'settings' | 'secret' | 'pod'
  /** The name of the Secret. */
  readonly secret?: string
  /**
   * For a failure that another attempt may change: whether an attempt has failed or the next one is waited
   * for. Only a second failure counts.
   */
  readonly attempt?: 'failed' | 'waiting'
}

/** The error of a request that the machine or cluster rejects. The message says what to do. */
export class InfrastructureError extends Error {
  override readonly name = 'InfrastructureError'
  /** The wait that the rejecting server asks for, in milliseconds; undefined if it asks for none. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, options: ErrorOptions & { readonly retryAfterMs?: number | undefined } = {}) {
    super(message, options)
    this.retryAfterMs = options.retryAfterMs
  }
}
