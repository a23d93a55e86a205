import type { Workload } from '../model.ts'

/**
 * Runs workloads: as Deployments in a cluster, as processes on one machine. Both implementations are tested by
 * `operator/testing/provider.contract.ts`.
 */
export interface Infrastructure {
  /**
   * Starts to bring the replicas of the workload to its description; resolves before they are ready. Applying
   * the same description again changes nothing. If the workload has changed, its replicas are replaced one by
   * one. Rejects with an `InfrastructureError` when the machine or cluster rejects the workload, for example
   * because a port is in use.
   */
  apply(workload: Workload): Promise<void>
  /** Resolves when every replica of the workload has ended. Has no effect on an unknown workload. */
  remove(name: string): Promise<void>
  /** Returns the running replicas of the workload, in order; empty if there is no such workload. */
  observe(name: string): readonly Replica[]
  /** Calls the listener with the name of a workload after each change of what `observe` returns for it. */
  onChange(listener: (workload: string) => void): void
}

export interface Replica {
  /** `ratelimit-0` on one machine; in a cluster the name of the pod. */
  readonly name: string
  /** Identifies one start of the replica. The replica's feed client sends it as `uid` in node.metadata. */
  readonly uid: string
  /** Whether the replica accepts calls. */
  readonly ready: boolean
  /**
   * Why the replica is not ready, for people: `starting`, `exited with code 1, again in 2 s`. Empty if it is
   * ready.
   */
  readonly reason: string
  readonly restarts: number
  /**
   * What a person must change before the replica can become ready; absent if it may become ready by itself.
   */
  readonly obstacle?: ReplicaObstacle
  /** Why the replica's backend (Redis, memcached, a database) fails; absent while it answers. */
  readonly backendProblem?: string
  /** The addresses of the replica by name, for people: `debug` -> `http://127.0.0.1:6070`. */
  readonly addresses: Readonly<Record<string, string>>
}

/** A cause for which a replica does not become ready by itself. */
export interface ReplicaObstacle {
  /** The cause, for people: `there is no Secret payments-database with the key url`. */
  readonly cause: string
  /** What a person has to change: the image, the settings, a Secret, or the rest of the pod. */
  readonly of: 'image' | 'settings' | 'secret' | 'pod'
  /** The name of the Secret to change, if `of` is `secret`. */
  readonly secret?: string
  /**
   * Present if another attempt may succeed: `failed` if one has failed, `waiting` while the next one is
   * awaited. Such an obstacle counts only from the second failure on.
   */
  readonly attempt?: 'failed' | 'waiting'
}

/** Thrown when the machine or cluster rejects a request. The message says what to do. */
export class InfrastructureError extends Error {
  override readonly name = 'InfrastructureError'
  /** The wait in milliseconds that the server asks for; undefined if it asks for none. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, options: ErrorOptions & { readonly retryAfterMs?: number | undefined } = {}) {
    super(message, options)
    this.retryAfterMs = options.retryAfterMs
  }
}
