import type { X509Certificate } from 'node:crypto'
import type { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import type { HealthTable } from './server/health.ts'

/**
 * The contract of a gRPC server, which knows nothing of the contents of messages.
 * `testing/server.contract.ts` tests every implementation.
 */
export interface GrpcServer {
  /**
   * Serves on an address; may be called for several. Rejects with a system error (`EADDRINUSE`, ...), and
   * with an error of OpenSSL for invalid credentials. Replaces a socket file on which no process listens.
   */
  listen(address: ListenAddress): Promise<BoundAddress>
  /**
   * Shuts down: health reports NOT_SERVING, no connections are accepted, peers get GOAWAY, and running calls
   * may end. Calls that run after `graceMs` are aborted with UNAVAILABLE; health Watches, which do not end by
   * themselves, as soon as no other calls run. Resolves when no connection is left. With a second call the
   * shorter grace period applies.
   */
  drain(graceMs: number): Promise<void>
  /**
   * The number of running calls, including health checks. A call runs until its answer was sent and its
   * handler has ended.
   */
  readonly activeCalls: number
}

export type ListenAddress = (
  | {
      readonly host: string
      /** The number of the port; 0 for a free one. */
      readonly port: number
      /** Whether to share the port with other processes (SO_REUSEPORT). */
      readonly reusePort?: boolean
    }
  | { readonly socketPath: string }
) & {
  /** Undefined for unencrypted connections. */
  readonly tls?: ServerTls | undefined
}

/**
 * TLS 1.2 or newer, and HTTP/2 by ALPN. The provider of the credentials reads files and reports changes,
 * which apply to later handshakes.
 */
export interface ServerTls {
  /** Called when the address is bound, and after each change. */
  credentials(): TlsCredentials
  /** Rejects callers without a certificate that `ca` has issued. Needs `ca`. */
  readonly requireClientCert: boolean
  /**
   * Checks more of a certificate that `ca` has issued, such as its names. A returned error rejects the
   * caller.
   */
  verifyClient?(certificate: X509Certificate): Error | undefined
  /**
   * Adds a listener for changes, until the returned function is called. If the listener throws because the
   * new credentials are invalid, the previous ones stay in use.
   */
  onChange(listener: () => void): () => void
  /** Called, for logs, when a caller was rejected or has disconnected during the handshake. */
  onRejected?(error: Error, peer: string): void
}

interface TlsCredentials {
  /** The certificate in PEM, followed by the intermediate certificates. */
  readonly cert: string
  readonly key: string
  /** The authorities that may have issued the peer's certificate: one certificate or several. */
  readonly ca?: string | undefined
}

export type BoundAddress = { readonly host: string; readonly port: number } | { readonly socketPath: string }

/**
 * How to decode and encode the messages of a method. When `decode` throws, the caller gets INTERNAL; in a
 * stream of requests the handler's iterable throws. An exception of `encode` is an internal error for
 * `onDefect`.
 */
export interface Codec<In, Out> {
  decode(bytes: Uint8Array): In
  encode(message: Out): Uint8Array
}

export interface Call {
  /**
   * Names are in lower case, each with its values in order; values of `-bin` names are bytes. Several text
   * values may arrive as one, joined by `, `: HTTP treats both alike.
   */
  readonly metadata: Metadata
  /** The address of the caller, `host:port` or `unix`, for logs only. */
  readonly peer: string
  /** The verified certificate of the caller; undefined if the server did not request one. */
  readonly peerCertificate: X509Certificate | undefined
  /** The deadline in the time of `Clock.monotonicMs`; undefined without one. */
  readonly deadlineMs: number | undefined
  /**
   * Aborted when the caller no longer waits, but not for an answered call. The reason is a `GrpcError`:
   * CANCELLED, DEADLINE_EXCEEDED, or UNAVAILABLE for a lost or closed connection. The iterable of requests
   * then throws this reason, and `return()` closes the iterator of the handler.
   */
  readonly signal: AbortSignal
  /** Sends headers. Throws if headers or a message were already sent. */
  sendHeaders(metadata: Metadata): void
  /** Sets the trailers to send with the status. They replace those of an earlier call. */
  setTrailers(metadata: Metadata): void
}

export type Metadata = ReadonlyMap<string, readonly (string | Uint8Array)[]>

/**
 * One method of a server. A `GrpcError` that its handler throws ends the call with its status. Any other
 * exception is an internal error: the caller gets INTERNAL without its text, and `onDefect` the exception.
 */
export type Method<In, Out> = Codec<In, Out> & {
  /** `/package.Service/Method`. */
  readonly path: string
  /**
   * Returns the bytes of `encode` in parts, which must never change: many calls send a large part without
   * copying it. Not used by `unary` and `server-sink`.
   */
  encodeParts?(message: Out): readonly Uint8Array[]
} & (
    | { readonly kind: 'unary'; handle(request: In, call: Call): Out | Promise<Out> }
    /**
     * Requests are read as fast as the handler takes them, one at a time. The end of the iterable does not
     * prove that all were sent: callers on Node end their side just before they cancel.
     */
    | { readonly kind: 'client-stream'; handle(requests: AsyncIterable<In>, call: Call): Promise<Out> }
    /** The handler is asked for the next message when the connection has taken the previous one. */
    | { readonly kind: 'server-stream'; handle(request: In, call: Call): AsyncIterable<Out> }
    /**
     * A server stream whose handler pushes encoded messages, so that many calls share one encoding, and a
     * message needs neither a promise nor a turn of the event loop. The call ends after the promise has
     * settled and the connection has taken all messages.
     */
    | { readonly kind: 'server-sink'; handle(request: In, call: Call, sink: MessageSink): Promise<void> }
    | { readonly kind: 'bidi'; handle(requests: AsyncIterable<In>, call: Call): AsyncIterable<Out> }
  )

/** Sends the messages of a call. The methods may be called at any time. */
export interface MessageSink {
  /**
   * Accepts a message in any case; its bytes may change after the call. Returns false when
   * `sinkHighWaterBytes` wait: the handler should then stop until `onReady`. After the end of the call it
   * does nothing and returns false. A message longer than `maxSendBytes` ends the call with
   * RESOURCE_EXHAUSTED.
   */
  write(message: Uint8Array): boolean
  /**
   * Sets the only listener. It is called after a `write` that has returned false, when at most half of
   * `sinkHighWaterBytes` waits. It is never called within `write` or after an abort.
   */
  onReady(listener: () => void): void
  /** The waiting bytes, with the gRPC prefix of each message. */
  readonly queuedBytes: number
  /**
   * Drops the waiting messages, so that a caller that does not read gets an error at once. One message may
   * have been sent in part: the call must end with an error.
   */
  discard(): void
  /** Resolves when all messages were taken, or dropped by `discard` or an abort. */
  flush(): Promise<void>
}

export const sinkHighWaterBytes = 64 * 1024

// biome-ignore lint/suspicious/noExplicitAny: a list of methods has no common type of messages
export type AnyMethod = Method<any, any>

export interface GrpcServerOptions {
  readonly methods: readonly AnyMethod[]
  readonly limits?: Partial<GrpcLimits>
  /** The health for grpc.health.v1. If undefined, the server does not serve grpc.health.v1. */
  readonly health?: HealthTable
  /** Called after each Check with its duration in milliseconds. */
  onHealthCheck?(tookMs: number): void
  /**
   * Limits the memory of unfinished requests; servers may share it. A request beyond it gets
   * RESOURCE_EXHAUSTED. By default the server has a budget of its own.
   */
  readonly memory?: MemoryBudget
  /** Called for every internal error; `path` is empty for an error of a connection. */
  onDefect(path: string, error: unknown): void
}

export interface GrpcLimits {
  /** The limit of a request message. A longer one gets RESOURCE_EXHAUSTED before it is buffered. */
  readonly maxReceiveBytes: number
  /** The limit of an answer. A longer one is replaced by RESOURCE_EXHAUSTED. */
  readonly maxSendBytes: number
  /**
   * The limit of the metadata of a request. Larger metadata gets RESOURCE_EXHAUSTED. RFC 9113 (6.5.2) counts
   * names, encoded values, and 32 for each field.
   */
  readonly maxMetadataBytes: number
  readonly maxConcurrentStreams: number
  /** A connection is drained at this age, plus or minus up to 10 %; 0 for never. */
  readonly maxConnectionAgeMs: number
  /** The time from the drain to the abort of running calls; 0 for no abort. */
  readonly maxConnectionAgeGraceMs: number
  /**
   * A request message of more than 1 KiB must arrive within this time, not counting the time in which the
   * handler does not read. After that, the call ends with DEADLINE_EXCEEDED.
   */
  readonly requestTimeoutMs: number
  /** A TLS handshake that takes longer is rejected. */
  readonly handshakeTimeoutMs: number
  /** The limit of unfinished TLS handshakes at an address; further connections are closed. */
  readonly maxHandshakes: number
  /** The limit of unfinished TLS handshakes from one peer address, so that no peer locks out others. */
  readonly maxHandshakesOfPeer: number
}

export const defaultLimits: GrpcLimits = {
  maxReceiveBytes: 4 * 1024 * 1024,
  maxSendBytes: 64 * 1024 * 1024,
  maxMetadataBytes: 16 * 1024,
  maxConcurrentStreams: 1000,
  maxConnectionAgeMs: 0,
  maxConnectionAgeGraceMs: 0,
  requestTimeoutMs: 60_000,
  handshakeTimeoutMs: 10_000,
  maxHandshakes: 1000,
  maxHandshakesOfPeer: 200,
}
