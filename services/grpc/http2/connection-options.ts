import type { Clock } from '@tollway/chassis/clock.ts'
import type { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import type { RequestHead } from './request.ts'
import type { Stream, StreamListener } from './streams/stream.ts'

export interface ConnectionOptions {
  readonly maxConcurrentStreams: number
  /**
   * The limit of a request's header list, as RFC 9113 (6.5.2) counts it. A longer list is truncated in the
   * `RequestHead`.
   */
  readonly maxHeaderListBytes: number
  /**
   * The time without received bytes after which the peer is pinged. After as long again without an answer,
   * the connection is closed.
   */
  readonly keepaliveMs: number
  readonly clock: Clock
  readonly memory: MemoryBudget
  /**
   * Returns how requests with this head are handled. The connection caches the result, so that work which
   * depends only on the head is done once for many calls.
   */
  route(request: RequestHead): OpenStream
  /** Called for an internal error, which the peer has not caused. It ends only this connection. */
  onDefect(error: unknown): void
  /** Called when the socket is closed and the listeners of all streams were notified. */
  onClosed(): void
}

/** Begins the handling of a stream, and returns the listener for its events. */
export type OpenStream = (stream: Stream) => StreamListener
