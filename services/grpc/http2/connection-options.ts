import type { Clock } from '@tollway/chassis/clock.ts'
import type { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import type { RequestHead } from './request.ts'
import type { Stream, StreamListener } from './streams/stream.ts'

export interface ConnectionOptions {
  readonly maxConcurrentStreams: number
  /** A longer header list, as counted by RFC 9113 (6.5.2), is truncated in the request. */
  readonly maxHeaderListBytes: number
  /**
   * The time without a frame after which the peer is pinged; after as long again the connection is closed.
   */
  readonly keepaliveMs: number
  readonly clock: Clock
  readonly memory: MemoryBudget
  /**
   * Returns how requests with this head are handled. The result is cached for the connection, so that work
   * that depends only on the head is done once for similar calls.
   */
  route(request: RequestHead): OpenStream
  /** Called for an internal error, which is not the peer's fault: it ends only the connection. */
  onDefect(error: unknown): void
  /** Called when the socket is closed and every listener was notified. */
  onClosed(): void
}

/** Starts the work on a stream, and returns the listener of its events. */
export type OpenStream = (stream: Stream) => StreamListener
