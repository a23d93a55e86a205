import type { X509Certificate } from 'node:crypto'
import type { MemoryBudget } from '@tollway/chassis/memory-budget.ts'

/**
 * The contract of a gRPC server. A method is a path, a codec and a handler; the server does not interpret
 * messages. `testing/server.contract.ts` tests that every implementation behaves as documented here.
 */
export interface GrpcServer {
  /**
   * Binds and serves. May be called for several addresses. Rejects with a system error (`EADDRINUSE`, ...)
   * when the address cannot be bound, and with an error of OpenSSL for invalid credentials. A socket file
   * without a listener is replaced.
   */
  listen(address: ListenAddress): Promise<BoundAddress>
  /**
   * Shuts down gracefully: health reports NOT_SERVING, no new connections are accepted, peers get GOAWAY,
   * running calls end. Calls that still run after `graceMs` are aborted with UNAVAILABLE. So are health
   * Watches as soon as no other calls run, since they do not end by themselves. Resolves when no connection
   * is left. With a second call the shorter grace period applies.
   */
  drain(graceMs: number): Promise<void>
  /** The number of calls whose answer or handler has not ended, including health checks. */
  readonly activeCalls: number
}

export type ListenAddress = (
  | {
      readonly host: string
      /** 0 selects a free port. */
      readonly port: number
      /**
       * Shares the port with other processes (SO_REUSEPORT): the kernel distributes connections among them.
       */
      readonly reusePort?: boolean
    }
  | { readonly socketPath: string }
) & {
  /** Connections are encrypted only if this is present. */
  readonly tls?: ServerTls | undefined
}

/**
 * TLS 1.2 or newer, with HTTP/2 by ALPN. It does not read files: the owner of the credentials watches them.
 * Changes apply to later handshakes; open connections continue.
 */
export interface ServerTls {
  /** Returns the credentials. Called when the address is bound, and after each change. */
  credentials(): TlsCredentials
  /** Rejects callers without a certificate that `ca` has issued. Needs `ca`. */
  readonly requireClientCert: boolean
  /**
   * Further checks of the certificate of a caller, such as its names. Called only for certificates that `ca`
   * has issued; an error rejects the caller.
   */
  verifyClient?(certificate: X509Certificate): Error | undefined
  /**
   * Adds a listener for changes of the credentials, until the returned function is called. The listener
   * throws for invalid credentials; the previous ones stay in use then.
   */
  onChange(listener: () => void): () => void
  /** Called for each caller that was rejected, or disconnected, before it could make a call. For logs. */
  onRejected?(error: Error, peer: string): void
}

/** All in PEM. */
export interface TlsCredentials {
  /** The certificate, followed by the intermediate certificates. */
  readonly cert: string
  readonly key: string
  /** The certificate authorities of the peer: one certificate or several. */
  readonly ca?: string | undefined
}

export type BoundAddress = { readonly host: string; readonly port: number } | { readonly socketPath: string }

/**
 * Encodes and decodes the messages of one method. `decode` throws for malformed bytes: the caller gets
 * INTERNAL; in a stream of requests the iterable throws it. An exception of `encode` is an internal error.
 */
export interface Codec<In, Out> {
  decode(bytes: Uint8Array): In
  encode(message: Out): Uint8Array
}

/** One call, for a handler. */
export interface Call {
  /**
   * The metadata of the caller. Names are lower case, with all values in order. `-bin` values are bytes. Text
   * values of one name may be joined by `, `, which is equivalent in HTTP and done by libraries.
   */
  readonly metadata: Metadata
  /** The caller's address, `host:port` or `unix`. For logs only. */
  readonly peer: string
  /** The verified certificate of the caller; undefined if none was requested. */
  readonly peerCertificate: X509Certificate | undefined
  /**
   * The deadline of the caller, by the monotonic clock (`Clock.monotonicMs`), so that a step of the machine's
   * clock does not change it; undefined without a deadline.
   */
  readonly deadlineMs: number | undefined
  /**
   * Aborted as soon as the caller waits no more. Its reason is a `GrpcError`: CANCELLED where the caller has
   * cancelled, DEADLINE_EXCEEDED, or UNAVAILABLE where the connection is lost or closed. The iterable of
   * requests then throws that reason, and the iterator that the handler returned is closed (`return()`), so
   * that `finally` blocks run. An answered call does not abort it.
   */
  readonly signal: AbortSignal
  /** Sends headers before the first message. Throws after that was sent. */
  sendHeaders(metadata: Metadata): void
  /** Sets the trailers, which are sent with the status. The last call wins. */
  setTrailers(metadata: Metadata): void
}

export type Metadata = ReadonlyMap<string, readonly (string | Uint8Array)[]>

/**
 * A handler returns an answer, or throws a `GrpcError` with the status for the caller. Any other exception is
 * an internal error: the caller gets INTERNAL without its text, and `onDefect` receives it.
 */
export type Method<In, Out> = Codec<In, Out> & {
  /** `/package.Service/Method`. */
  readonly path: string
  /**
   * Returns the bytes of `encode` in parts, which must never change. Streams use it instead of `encode`, if
   * it is present, so that many calls send the same large part without a copy.
   */
  encodeParts?(message: Out): readonly Uint8Array[]
} & (
    | { readonly kind: 'unary'; handle(request: In, call: Call): Out | Promise<Out> }
    /**
     * The caller is read only as fast as the iterable: a slow handler slows its caller. Read one message at a
     * time. The end of the iterable does not prove that all requests were sent: callers on Node half-close a
     * call just before they cancel it.
     */
    | { readonly kind: 'client-stream'; handle(requests: AsyncIterable<In>, call: Call): Promise<Out> }
    /**
     * The next message is requested only when the connection has taken the last one: a slow reader slows its
     * writer.
     */
    | { readonly kind: 'server-stream'; handle(request: In, call: Call): AsyncIterable<Out> }
    /**
     * The same on the wire, for handlers that push: a message costs no promise and no turn of the event loop.
     * The call ends when the promise settles, after the written messages were taken. Messages are passed
     * encoded, so that many calls share one encoding: `encode` is not used.
     */
    | { readonly kind: 'server-sink'; handle(request: In, call: Call, sink: MessageSink): Promise<void> }
    | { readonly kind: 'bidi'; handle(requests: AsyncIterable<In>, call: Call): AsyncIterable<Out> }
  )

/** The messages that a handler pushes. All methods may be called at any time. */
export interface MessageSink {
  /**
   * Sends an encoded message after the waiting ones. It is always accepted, and the bytes may change
   * afterwards; false means that `sinkHighWaterBytes` or more wait, and that the handler should stop until
   * `onReady`. After the call's end, or an abort of its signal, it has no effect and returns false. A message
   * longer than `maxSendBytes` is replaced by RESOURCE_EXHAUSTED at once, and the signal is aborted.
   */
  write(message: Uint8Array): boolean
  /**
   * Calls back when at most half of `sinkHighWaterBytes` waits after a `write` that returned false. Never
   * within `write`, and never after an abort. A later listener replaces the earlier one.
   */
  onReady(listener: () => void): void
  /**
   * The bytes that wait for the caller's windows or for the connection, including gRPC's prefix of each
   * message.
   */
  readonly queuedBytes: number
  /**
   * Drops the waiting messages, so that a caller that does not read can get an error at once. A partly sent
   * message is then incomplete: the handler must end the call with an error.
   */
  discard(): void
  /** Resolves when no message waits any more, also after `discard` and an abort. */
  flush(): Promise<void>
}

/** The amount of waiting bytes at which a sink asks its writer to stop. */
export const sinkHighWaterBytes = 64 * 1024

/** Methods with different messages, in one list. */
// biome-ignore lint/suspicious/noExplicitAny: a list of methods has no common type of messages
export type AnyMethod = Method<any, any>

export interface GrpcServerOptions {
  readonly methods: readonly AnyMethod[]
  readonly limits?: Partial<GrpcLimits>
  /** Serves grpc.health.v1 from this table if given. */
  readonly health?: HealthTable
  /** Called after each Check of grpc.health.v1 with its duration. */
  onHealthCheck?(tookMs: number): void
  /**
   * Limits the memory of unfinished requests, shared with other servers of the process; requests beyond it
   * get RESOURCE_EXHAUSTED. Without it the server has the default limit for itself.
   */
  readonly memory?: MemoryBudget
  /** Called for every internal error of a handler; the process continues. */
  onDefect(path: string, error: unknown): void
}

export interface GrpcLimits {
  /** A longer request message is answered with RESOURCE_EXHAUSTED before it is buffered. */
  readonly maxReceiveBytes: number
  /** A longer answer is replaced by RESOURCE_EXHAUSTED. */
  readonly maxSendBytes: number
  /**
   * Longer metadata of a request is answered with RESOURCE_EXHAUSTED. Counted as a header list in RFC 9113
   * (6.5.2): names, encoded values, and 32 for each.
   */
  readonly maxMetadataBytes: number
  readonly maxConcurrentStreams: number
  /** A connection older than this, plus or minus 10 %, is drained; 0 for never. */
  readonly maxConnectionAgeMs: number
  /** Calls that still run this long after the drain of their connection are aborted; 0 for never. */
  readonly maxConnectionAgeGraceMs: number
  /**
   * A request message of more than 1 KiB that is not complete this long after its first part, while the
   * server waits for the rest, ends the call with DEADLINE_EXCEEDED.
   */
  readonly requestTimeoutMs: number
  /** A caller that takes longer for its TLS handshake is rejected. */
  readonly handshakeTimeoutMs: number
  /** The most unfinished TLS handshakes of an address; further connections are closed at once. */
  readonly maxHandshakes: number
  /** The same for one peer address, so that a single peer cannot lock out the others. */
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

/** The health of each service for grpc.health.v1. The name `''` is the whole server. */
export interface HealthTable {
  /** Returns undefined for an unknown name: Check answers NOT_FOUND, Watch SERVICE_UNKNOWN. */
  get(service: string): boolean | undefined
  set(service: string, serving: boolean): void
  /** Adds a listener for changes, until the returned function is called. */
  subscribe(listener: () => void): () => void
  /** Sets every name to not serving, also for later calls of `set`. The server's `drain` calls it. */
  drain(): void
}
