import type { WorkerState } from './worker.ts'

/** The state of several workers as one service. */
export interface Whole {
  /** Every worker has accepted calls at least once. */
  readonly started: boolean
  readonly healthy: boolean
  /** Why it is not healthy, in a few words; empty when it is. */
  readonly reason: string
}

export const newWhole: Whole = { started: false, healthy: false, reason: 'starting' }

/**
 * Computes the health of the service. It becomes healthy when every worker is. From then on it is healthy
 * while there is a worker that accepts calls, and all such workers are healthy: the system gives the new
 * connections of a crashed worker to the others, so that unhealthiness would only divert calls from processes
 * that answer them. A worker that accepts calls and cannot answer makes the service unhealthy, since callers
 * cannot choose another worker.
 */
export function judgeWhole(before: Whole, workers: readonly WorkerState[]): Whole {
  const started = before.started || workers.every(({ is }) => is !== 'absent')
  const mayBeAbsent = before.started && workers.some(({ is }) => is !== 'absent')
  const ill = workers.findIndex(({ is }) => is === 'unhealthy' || (is === 'absent' && !mayBeAbsent))
  if (ill === -1) return { started, healthy: true, reason: '' }
  return { started, healthy: false, reason: `worker ${ill}: ${workers[ill]?.reason}` }
}
