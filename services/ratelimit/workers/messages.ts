import type { SeriesDelta } from './series-deltas.ts'

/**
 * The messages between a supervisor and its workers over Node's IPC channel. `health` and `alive` are the messages that
 * every service sends to the process that started it.
 */
export type FromWorker =
  | { readonly type: 'health'; readonly healthy: boolean; readonly reason: string }
  | { readonly type: 'alive' }
  /** The worker takes no call yet, for this reason. */
  | { readonly type: 'waiting'; readonly reason: string }
  | { readonly type: 'statistics'; readonly deltas: readonly SeriesDelta[] }
  /** `text` holds the rules, if they were asked for. Statistics that were asked for come before it. */
  | { readonly type: 'answer'; readonly id: number; readonly text: string }

export type FromSupervisor =
  /** The health of all workers together. */
  | { readonly type: 'whole'; readonly healthy: boolean }
  | { readonly type: 'ask'; readonly id: number; readonly what: Question }

export type Question = 'statistics' | 'rules'
