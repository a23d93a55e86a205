import type { Workload } from '../ir.ts'

/**
 * Runs workloads: in a cluster as Deployments, on one machine as processes. provider-contract.ts has the
 * tests of this contract.
 */
export interface Infrastructure {
  /**
   * Makes the workload run as described, and resolves when that has begun, not when it is ready. Level-based:
   * applying the same again changes nothing. A changed workload replaces its replicas one after the other.
   * Rejects with an `InfrastructureError` when the machine or cluster refuses (a port in use, for example).
   */
  apply(workload: Workload): Promise<void>
  /**
   * Ends every replica of the workload. Resolves when they have ended. Removing an unknown workload has no
   * effect.
   */
  remove(name: string): Promise<void>
  /** The running replicas of the workload, in their order; empty if there is no such workload. */
  observe(name: string): readonly Replica[]
  /** Called after each change of the result of `observe` for any workload. */
  onChange(listener: (workload: string) => void): void
}

export interface Replica {
  /** `ratelimit-0`; in a cluster the pod's name, which has the workload's in it. */
  readonly name: string
  /** New with every start of the replica. Its feed client sends it as `uid` in node.metadata. */
  readonly uid: string
  /** Takes calls. */
  readonly ready: boolean
  /** Why it is not ready, for people: `starting`, `exited with code 1, again in 2 s`. Empty when ready. */
  readonly reason: string
  readonly restarts: number
  /** Why its backend fails (Redis, memcached, a database); absent while the backend answers. */
  readonly backendProblem?: string
  /** The address for a person: `debug` -> `http://127.0.0.1:6070`. */
  readonly addresses: Readonly<Record<string, string>>
}

/** The request cannot be carried out; the message says what to do. */
export class InfrastructureError extends Error {
  override readonly name = 'InfrastructureError'
  /** How long the one who refused asks to be left alone; undefined when that was not said. */
  readonly retryAfterMs: number | undefined

  constructor(message: string, options: ErrorOptions & { readonly retryAfterMs?: number | undefined } = {}) {
    super(message, options)
    this.retryAfterMs = options.retryAfterMs
  }
}
