import type { Clock } from '@tollway/chassis/clock.ts'
import type { RequestMemory } from '@tollway/chassis/request-memory.ts'
import type { Request } from './request.ts'
import type { Stream, StreamListener } from './stream.ts'

export interface ConnectionOptions {
  readonly maxConcurrentStreams: number
  /** Of a longer header list, as RFC 9113 (6.5.2) counts it, the request has only the beginning. */
  readonly maxHeaderListBytes: number
  /** After so long without a frame the peer is asked for a sign of life, and after as long again cut. */
  readonly keepaliveMs: number
  readonly clock: Clock
  readonly memory: RequestMemory
  /**
   * What is to happen to requests with this head. It is remembered for the connection, so that the work that
   * depends on the head alone is done once for calls that are alike.
   */
  route(request: Request): OpenStream
  /** An error of ours, for which the peer could do nothing: it costs the connection only. */
  onDefect(error: unknown): void
  /** The socket is closed; every listener knows. */
  onClosed(): void
}

/** Begins the work on a stream, and says who takes what comes on it. */
export type OpenStream = (stream: Stream) => StreamListener
