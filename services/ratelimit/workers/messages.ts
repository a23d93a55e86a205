import type { SeriesDelta } from './series-deltas.ts'

/**
 * The messages between a supervisor and its workers over Node's IPC channel. The process of every service
 * sends `health`, `backend` and `alive` to its parent.
 */
export type FromWorker =
  | { readonly type: 'health'; readonly healthy: boolean; readonly reason: string }
  /** `problem` is why the worker's backend fails; empty when it answers. */
  | { readonly type: 'backend'; readonly problem: string }
  | { readonly type: 'alive' }
  | { readonly type: 'waiting'; readonly reason: string }
  | { readonly type: 'statistics'; readonly deltas: readonly SeriesDelta[] }
  /** The answer to `ask`: the rules as `text` if requested. Requested statistics are sent before it. */
  | { readonly type: 'answer'; readonly id: number; readonly text: string }

export type FromSupervisor =
  /** The health of all workers together. */
  | { readonly type: 'whole'; readonly healthy: boolean }
  | { readonly type: 'ask'; readonly id: number; readonly what: Question }

export type Question = 'statistics' | 'rules'
