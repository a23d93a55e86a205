import type { Clock } from '@tollway/chassis/clock.ts'
import type { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import type { RequestHead } from './request.ts'
import type { Stream, StreamListener } from './streams/stream.ts'

export interface ConnectionOptions {
  readonly maxConcurrentStreams: number
  /** The size as RFC 9113 (6.5.2) counts it. A longer list is truncated in the `RequestHead`. */
  readonly maxHeaderListBytes: number
  /**
   * After this time without bytes, the peer is pinged; after as long again without an answer, it is
   * disconnected.
   */
  readonly keepaliveMs: number
  readonly clock: Clock
  readonly memory: MemoryBudget
  /**
   * The connection caches the result, so that work that depends only on the head is done once for many calls.
   */
  route(request: RequestHead): OpenStream
  /** Called for an internal error, which ends only this connection. */
  onDefect(error: unknown): void
  /** Called when the listeners of all streams were notified. */
  onClosed(): void
}

/** Returns the listener for the events of the stream. */
export type OpenStream = (stream: Stream) => StreamListener
