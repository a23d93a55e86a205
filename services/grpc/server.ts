import type { X509Certificate } from 'node:crypto'
import type { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import type { HealthTable } from './server/health.ts'

/**
 * The contract of a gRPC server. A method is a path, a codec and a handler; the server knows nothing of the
 * messages' contents. `testing/server.contract.ts` tests every implementation of this contract.
 */
export interface GrpcServer {
  /**
   * Binds an address and serves on it; may be called for several addresses. Rejects with a system error
   * (`EADDRINUSE`, ...) when the address cannot be bound, and with an error of OpenSSL for invalid
   * credentials. An existing socket file is replaced if no process listens on it.
   */
  listen(address: ListenAddress): Promise<BoundAddress>
  /**
   * Shuts down gracefully: health reports NOT_SERVING, no new connections are accepted, peers get GOAWAY, and
   * running calls may end. Calls that still run after `graceMs` are aborted with UNAVAILABLE. Health Watches
   * do not end by themselves, so they are aborted as soon as no other calls run. Resolves when no connection
   * is left. With a second call the shorter grace period applies.
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
      /** 0 selects a free port. */
      readonly port: number
      /** Shares the port with other processes (SO_REUSEPORT): the kernel spreads connections among them. */
      readonly reusePort?: boolean
    }
  | { readonly socketPath: string }
) & {
  /** The TLS of connections; undefined for unencrypted ones. */
  readonly tls?: ServerTls | undefined
}

/**
 * The TLS of a server: TLS 1.2 or newer, and HTTP/2 by ALPN. The server reads no files; the provider of the
 * credentials does, and reports changes. A change applies to later handshakes and leaves open connections
 * alone.
 */
export interface ServerTls {
  /** Returns the current credentials. Called when the address is bound, and after each change. */
  credentials(): TlsCredentials
  /** If true, callers without a certificate that `ca` has issued are rejected. Needs `ca`. */
  readonly requireClientCert: boolean
  /**
   * Checks more of a caller's certificate, such as its names. A returned error rejects the caller. Called
   * only for certificates that `ca` has issued.
   */
  verifyClient?(certificate: X509Certificate): Error | undefined
  /**
   * Adds a listener for changes of the credentials, until the returned function is called. The listener
   * throws if the new credentials are invalid; the server then keeps the previous ones.
   */
  onChange(listener: () => void): () => void
  /** Called for each caller that was rejected, or that has disconnected during the handshake. For logs. */
  onRejected?(error: Error, peer: string): void
}

/** The credentials in PEM. */
export interface TlsCredentials {
  /** The certificate, followed by the intermediate certificates. */
  readonly cert: string
  readonly key: string
  /** The certificate authorities of the peer: one certificate or several. */
  readonly ca?: string | undefined
}

export type BoundAddress = { readonly host: string; readonly port: number } | { readonly socketPath: string }

/**
 * Encodes and decodes the messages of one method. When `decode` throws for malformed bytes, the caller gets
 * INTERNAL; in a stream of requests the handler's iterable throws that error. An exception of `encode` is an
 * internal error, which `onDefect` receives.
 */
export interface Codec<In, Out> {
  decode(bytes: Uint8Array): In
  encode(message: Out): Uint8Array
}

/** What a handler knows of one call, and can do with it. */
export interface Call {
  /**
   * The metadata of the caller: names in lower case, each with all its values in order. Values of names with
   * `-bin` are bytes. Several text values of a name may arrive as one, joined by `, `: HTTP treats both
   * alike, and some libraries join them.
   */
  readonly metadata: Metadata
  /** The caller's address, `host:port` or `unix`. For logs only. */
  readonly peer: string
  /** The verified certificate of the caller; undefined if the server did not request one. */
  readonly peerCertificate: X509Certificate | undefined
  /**
   * The caller's deadline in the time of `Clock.monotonicMs`, which a change of the machine's clock does not
   * affect; undefined without a deadline.
   */
  readonly deadlineMs: number | undefined
  /**
   * Aborted as soon as the caller no longer waits for an answer; an answered call is not aborted. The reason
   * is a `GrpcError`: CANCELLED if the caller has cancelled, DEADLINE_EXCEEDED, or UNAVAILABLE if the
   * connection was lost or closed. The iterable of requests then throws this reason, and the iterator that
   * the handler returned is closed by `return()`, which runs its `finally` blocks.
   */
  readonly signal: AbortSignal
  /** Sends headers before the first message. Throws if headers or a message were already sent. */
  sendHeaders(metadata: Metadata): void
  /**
   * Sets the trailers, which are sent with the status. Each call replaces the trailers of the previous one.
   */
  setTrailers(metadata: Metadata): void
}

export type Metadata = ReadonlyMap<string, readonly (string | Uint8Array)[]>

/**
 * One method of a server. To end a call with a status, its handler throws a `GrpcError`. Any other exception
 * is an internal error: the caller gets INTERNAL without the exception's text, and `onDefect` receives the
 * exception.
 */
export type Method<In, Out> = Codec<In, Out> & {
  /** The path in requests: `/package.Service/Method`. */
  readonly path: string
  /**
   * Returns the bytes of `encode` in parts, which must never change. If present, all kinds of methods except
   * `unary` and `server-sink` use it instead of `encode`, so that many calls send the same large part without
   * copying it.
   */
  encodeParts?(message: Out): readonly Uint8Array[]
} & (
    | { readonly kind: 'unary'; handle(request: In, call: Call): Out | Promise<Out> }
    /**
     * Requests are read from the connection only as fast as the handler takes them, which slows down the
     * caller. The handler asks for one message at a time. The end of the iterable does not prove that all
     * requests were sent: callers on Node end their side of a call just before they cancel it.
     */
    | { readonly kind: 'client-stream'; handle(requests: AsyncIterable<In>, call: Call): Promise<Out> }
    /**
     * The handler is asked for the next message only when the connection has taken the last one, so a slow
     * caller slows down the handler.
     */
    | { readonly kind: 'server-stream'; handle(request: In, call: Call): AsyncIterable<Out> }
    /**
     * A server stream whose handler pushes messages: a message needs neither a promise nor a turn of the
     * event loop. After the promise settles and the written messages were taken, the call ends. The handler
     * passes encoded messages, so that many calls share one encoding; `encode` is not used.
     */
    | { readonly kind: 'server-sink'; handle(request: In, call: Call, sink: MessageSink): Promise<void> }
    | { readonly kind: 'bidi'; handle(requests: AsyncIterable<In>, call: Call): AsyncIterable<Out> }
  )

/** The receiver of the messages that a handler pushes. Its methods may be called at any time. */
export interface MessageSink {
  /**
   * Sends an encoded message after the waiting ones. The message is always accepted, and its bytes may change
   * after the call. Returns false when `sinkHighWaterBytes` or more wait: the handler should then stop until
   * `onReady`. After the end of the call or an abort of its signal, it does nothing and returns false. A
   * message longer than `maxSendBytes` ends the call with RESOURCE_EXHAUSTED at once, and aborts the signal.
   */
  write(message: Uint8Array): boolean
  /**
   * Sets the listener that is called, after a `write` has returned false, as soon as at most half of
   * `sinkHighWaterBytes` waits. It is never called within `write` or after an abort. A later listener
   * replaces the earlier one.
   */
  onReady(listener: () => void): void
  /**
   * The bytes that wait until the caller or the connection takes more, including the gRPC prefix of each
   * message.
   */
  readonly queuedBytes: number
  /**
   * Drops the waiting messages, so that a caller that does not read can get an error at once. A message may
   * have been sent in part, so the handler must end the call with an error.
   */
  discard(): void
  /** Resolves when no message waits any more: all were taken, or `discard` or an abort has dropped them. */
  flush(): Promise<void>
}

/** The number of waiting bytes from which `MessageSink.write` returns false. */
export const sinkHighWaterBytes = 64 * 1024

/** A method with messages of any type, for lists of methods. */
// biome-ignore lint/suspicious/noExplicitAny: a list of methods has no common type of messages
export type AnyMethod = Method<any, any>

export interface GrpcServerOptions {
  readonly methods: readonly AnyMethod[]
  readonly limits?: Partial<GrpcLimits>
  /** The health that grpc.health.v1 reports; without it, that service is not served. */
  readonly health?: HealthTable
  /** Called after each Check of grpc.health.v1 with its duration in milliseconds. */
  onHealthCheck?(tookMs: number): void
  /**
   * The limit of the memory of unfinished requests, which several servers of a process may share; requests
   * beyond it get RESOURCE_EXHAUSTED. By default the server has a budget of its own with the default limit.
   */
  readonly memory?: MemoryBudget
  /**
   * Called for every internal error, which does not end the process. `path` is that of the method; empty for
   * an error of a connection.
   */
  onDefect(path: string, error: unknown): void
}

export interface GrpcLimits {
  /**
   * The largest request message in bytes. A longer one is answered with RESOURCE_EXHAUSTED before it is
   * buffered.
   */
  readonly maxReceiveBytes: number
  /** The largest answer message in bytes. A longer one is replaced by RESOURCE_EXHAUSTED. */
  readonly maxSendBytes: number
  /**
   * The largest metadata of a request; larger metadata is answered with RESOURCE_EXHAUSTED. The size is that
   * of RFC 9113 (6.5.2): the bytes of the names and the encoded values, and 32 for each field.
   */
  readonly maxMetadataBytes: number
  readonly maxConcurrentStreams: number
  /** The age at which a connection is drained, plus or minus a random share of up to 10 %; 0 for never. */
  readonly maxConnectionAgeMs: number
  /** The time from the drain of an old connection to the abort of its running calls; 0 for no abort. */
  readonly maxConnectionAgeGraceMs: number
  /**
   * The time that a request message may take from its first to its last part; later the call ends with
   * DEADLINE_EXCEEDED. It applies to messages of more than 1 KiB, and only while the server waits for the
   * caller.
   */
  readonly requestTimeoutMs: number
  /** The time that a TLS handshake may take; later the caller is rejected. */
  readonly handshakeTimeoutMs: number
  /**
   * At most this many TLS handshakes may be unfinished at a bound address; further connections are closed at
   * once.
   */
  readonly maxHandshakes: number
  /**
   * At most this many of these handshakes may come from one peer address, so that no peer can lock out
   * others.
   */
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
