import type { SeriesDelta } from './series-deltas.ts'

/**
 * What a supervisor and its workers tell each other over Node's IPC channel. The messages `health` and `alive`
 * are those that every process of ours tells the one that started it.
 */
export type FromWorker =
  | { readonly type: 'health'; readonly healthy: boolean; readonly reason: string }
  | { readonly type: 'alive' }
  | { readonly type: 'statistics'; readonly deltas: readonly SeriesDelta[] }
  /** `text` holds the rules, if they were asked for. Statistics that were asked for come before it. */
  | { readonly type: 'answer'; readonly id: number; readonly text: string }

export type FromSupervisor =
  /** The health of all workers together. */
  | { readonly type: 'whole'; readonly healthy: boolean }
  | { readonly type: 'ask'; readonly id: number; readonly what: Question }

export type Question = 'statistics' | 'rules'
