import type { WorkerState } from './keep-worker.ts'

/** What several workers are as one service. */
export interface Whole {
  /** Every worker has taken calls at least once. */
  readonly started: boolean
  readonly healthy: boolean
  /** Why it is not healthy, in a few words; empty when it is. */
  readonly reason: string
}

export const newWhole: Whole = { started: false, healthy: false, reason: 'starting' }

/**
 * The service becomes healthy when every worker is. From then on it is healthy while each worker that takes
 * calls is, and there is one: of a worker that crashed the system gives new connections to the others, so that
 * calls which are sent elsewhere would only be taken from processes that answer them. A worker that takes calls
 * and cannot answer makes the whole unhealthy, since no caller can choose another one.
 */
export function judgeWhole(before: Whole, workers: readonly WorkerState[]): Whole {
  const started = before.started || workers.every(({ is }) => is !== 'absent')
  const mayBeAbsent = before.started && workers.some(({ is }) => is !== 'absent')
  const ill = workers.findIndex(({ is }) => is === 'unhealthy' || (is === 'absent' && !mayBeAbsent))
  if (ill === -1) return { started, healthy: true, reason: '' }
  return { started, healthy: false, reason: `worker ${ill}: ${workers[ill]?.reason}` }
}
