import type { Direction } from '@tollway/grpc/http2/call-tap.ts'
import type { ComparisonReport } from './comparison.ts'
import type { ComparedFields } from './find-differences.ts'
import type { Peer } from './peer.ts'

/** The input of the process that calls the candidate, and the first message to it. */
export interface ShadowTask {
  readonly candidate: Peer
  /** The candidate reads the counters after the reference has counted in them. */
  readonly sharedCounters: boolean
  /** The timeout of each call of the candidate. */
  readonly timeoutMs: number
  readonly compared: ComparedFields
}

/**
 * Bytes of a connection, or its end; the time is that of the sending process. After `cut` the sending process
 * passes no more bytes of the connection.
 */
export interface Piece {
  readonly connection: number
  readonly atMs: number
  readonly read: { readonly direction: Direction; readonly bytes: Uint8Array } | 'end' | 'cut'
}

export type ToShadowProcess =
  | { readonly kind: 'pieces'; readonly pieces: readonly Piece[] }
  /** `cutBytes` is the sum of the bytes of connections after their cuts. */
  | { readonly kind: 'report'; readonly cutBytes: number }
  /** Waits for the candidate at most `graceMs`, answers with the report, and ends the process. */
  | { readonly kind: 'close'; readonly cutBytes: number; readonly graceMs: number }

export type FromShadowProcess =
  /** The first message to the parent. */
  | { readonly kind: 'ready' }
  /** The bytes of pieces that the process has read. */
  | { readonly kind: 'taken'; readonly bytes: number }
  | { readonly kind: 'report'; readonly report: ComparisonReport }
  | { readonly kind: 'defect'; readonly text: string }
