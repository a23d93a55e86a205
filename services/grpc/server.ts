import type { X509Certificate } from 'node:crypto'
import type { RequestMemory } from '@tollway/chassis/request-memory.ts'

/**
 * The contract of a gRPC server, as all our services use it. A method is a path, a codec and a handler; what
 * the bytes mean is its own business. `server-contract.ts` holds every fulfilment to what is said here.
 */
export interface GrpcServer {
  /**
   * Binds and serves. May be called for several addresses. Rejects with a system error (`EADDRINUSE`, ...)
   * when the address cannot be bound, and with an error of OpenSSL for credentials that are none. A socket
   * file on which nobody listens any more is replaced.
   */
  listen(address: ListenAddress): Promise<BoundAddress>
  /**
   * Ends in peace: health says NOT_SERVING, no new connection is taken, peers are told by GOAWAY, running
   * calls end. What still runs after `graceMs` is cut with UNAVAILABLE. So is a health Watch as soon as
   * nothing else runs, for it has no end of its own. Resolves when no connection is left. Called again, the
   * shorter grace counts.
   */
  drain(graceMs: number): Promise<void>
  /** Calls whose answer, or whose handler's work, has not ended; health checks included. */
  readonly activeCalls: number
}

export type ListenAddress = (
  | {
      readonly host: string
      /** 0 asks for a free port. */
      readonly port: number
      /** Shares the port with other processes (SO_REUSEPORT): the kernel spreads connections over them. */
      readonly reusePort?: boolean
    }
  | { readonly socketPath: string }
) & {
  /** Without it all is sent as it is. */
  readonly tls?: ServerTls | undefined
}

/**
 * TLS 1.2 or newer, with HTTP/2 by ALPN. It knows no files: the owner of the credentials watches them. A
 * change concerns handshakes that begin after it; connections that are there live on.
 */
export interface ServerTls {
  /** Asked when the address is bound, and after each change. */
  credentials(): TlsCredentials
  /** Refuses callers without a certificate that `ca` vouches for. Needs `ca`. */
  readonly requireClientCert: boolean
  /**
   * What else has to be true of the certificate of a caller, as which names it has. Asked only of
   * certificates that `ca` vouches for; an error refuses the caller.
   */
  verifyClient?(certificate: X509Certificate): Error | undefined
  /**
   * Calls back after each change of the credentials, until the returned function is called. The listener
   * throws for credentials that are none; those before them then stay in force.
   */
  onChange(listener: () => void): () => void
  /** Told of each caller that was refused, or gave up, before it could make a call. For logs. */
  onRefused?(error: Error, peer: string): void
}

/** All in PEM. */
export interface TlsCredentials {
  /** The own certificate, and behind it those between it and the CA. */
  readonly cert: string
  readonly key: string
  /** Who vouches for the other side: one certificate or several. */
  readonly ca?: string | undefined
}

export type BoundAddress = { readonly host: string; readonly port: number } | { readonly socketPath: string }

/**
 * Encodes and decodes the messages of one method. `decode` throws for bytes that are no message: the caller
 * gets INTERNAL; in a stream of requests the iterable throws it. What `encode` throws is a defect.
 */
export interface Codec<In, Out> {
  decode(bytes: Uint8Array): In
  encode(message: Out): Uint8Array
}

/** One call, as a handler sees it. */
export interface Call {
  /**
   * What the caller sent. Names are lower case; of a name sent twice, all values in order. `-bin` values are
   * bytes. Text values of one name may come joined by `, `: for HTTP that is the same, and libraries do it.
   */
  readonly metadata: Metadata
  /** The caller's address, `host:port` or `unix`. For logs only. */
  readonly peer: string
  /**
   * The certificate that the caller has proved to hold, and that `ca` vouches for; undefined where none is
   * asked for.
   */
  readonly peerCertificate: X509Certificate | undefined
  /**
   * When the caller stops waiting, by the monotonic clock (`Clock.monotonicMs`), so that a step of the machine's
   * clock changes no deadline; undefined when the caller waits for ever.
   */
  readonly deadlineMs: number | undefined
  /**
   * Aborted as soon as nobody waits for an answer any more: cancelled, deadline passed, connection lost or
   * cut. Its reason is a `GrpcError`. The iterable of requests then throws that reason, and the iterator that
   * the handler returned is closed (`return()`), so that `finally` blocks run. An answered call does not
   * abort it.
   */
  readonly signal: AbortSignal
  /** Sent before the first message. Throws once that is out. */
  sendHeaders(metadata: Metadata): void
  /** Sent with the status at the end. The last call wins. */
  setTrailers(metadata: Metadata): void
}

export type Metadata = ReadonlyMap<string, readonly (string | Uint8Array)[]>

/**
 * A handler answers, or throws a `GrpcError` that says which status the caller gets. Anything else thrown is
 * a defect: the caller gets INTERNAL without its text, and `onDefect` gets it.
 */
export type Method<In, Out> = Codec<In, Out> & {
  /** `/package.Service/Method`. */
  readonly path: string
} & (
    | { readonly kind: 'unary'; handle(request: In, call: Call): Out | Promise<Out> }
    /**
     * The caller is read only as fast as the iterable is: a slow handler slows its caller. One read at a
     * time. An end of the iterable alone does not prove that all was sent: callers on Node half-close a call
     * just before they cancel it.
     */
    | { readonly kind: 'client-stream'; handle(requests: AsyncIterable<In>, call: Call): Promise<Out> }
    /**
     * The next message is asked for only when the connection has taken the last: a slow reader slows its
     * writer.
     */
    | { readonly kind: 'server-stream'; handle(request: In, call: Call): AsyncIterable<Out> }
    /**
     * On the wire the same, for handlers that push: a message costs no promise and no turn of its own. The
     * call ends when the promise settles, after what was written before has been taken. Messages come
     * encoded, so that many calls share one encoding: `encode` is not used.
     */
    | { readonly kind: 'server-sink'; handle(request: In, call: Call, sink: MessageSink): Promise<void> }
    | { readonly kind: 'bidi'; handle(requests: AsyncIterable<In>, call: Call): AsyncIterable<Out> }
  )

/** Where a handler pushes its messages. All of it may be called at any time, from anywhere. */
export interface MessageSink {
  /**
   * Sends an encoded message, behind those that wait. It is taken in any case, and may change afterwards;
   * false says that `sinkHighWaterBytes` or more wait, and that the handler should stop until `onReady`.
   * After the call's end, or an abort of its signal, it does nothing and returns false. Instead of a message
   * longer than `maxSendBytes` the caller gets RESOURCE_EXHAUSTED at once, and the signal is aborted.
   */
  write(message: Uint8Array): boolean
  /**
   * Calls back each time when, after a `write` that returned false, no more than half of
   * `sinkHighWaterBytes` waits. Never within `write`, and never after an abort. The last listener counts.
   */
  onReady(listener: () => void): void
  /** What waits for the caller's windows or for the connection; with gRPC's prefix of each message. */
  readonly queuedBytes: number
  /**
   * Drops what waits, so that a caller who does not read can be told an error at once. A message of which a
   * part was sent is broken: the handler has to end the call with an error.
   */
  discard(): void
}

/** So much may wait in a sink before it asks its writer to stop. */
export const sinkHighWaterBytes = 64 * 1024

/** Methods of unlike messages, in one list. */
// biome-ignore lint/suspicious/noExplicitAny: a list of methods forgets what each one's messages are
export type AnyMethod = Method<any, any>

export interface GrpcServerOptions {
  readonly methods: readonly AnyMethod[]
  readonly limits?: Partial<GrpcLimits>
  /** Serves grpc.health.v1 from this table when given. */
  readonly health?: HealthTable
  /** Called after each Check of grpc.health.v1 with the time that it took. */
  onHealthCheck?(tookMs: number): void
  /**
   * What unfinished requests may hold, shared with other servers of the process; those beyond it get
   * RESOURCE_EXHAUSTED. A server that is given none has the default for itself.
   */
  readonly memory?: RequestMemory
  /** Told of every defect of a handler; the process goes on. */
  onDefect(path: string, error: unknown): void
}

export interface GrpcLimits {
  /** A longer request message is answered by RESOURCE_EXHAUSTED before it is buffered. */
  readonly maxReceiveBytes: number
  /** Instead of a longer answer the caller gets RESOURCE_EXHAUSTED. */
  readonly maxSendBytes: number
  /**
   * Longer metadata of a request is answered by RESOURCE_EXHAUSTED. Counted as RFC 9113 (6.5.2) counts a
   * header list: names, values as they are sent, and 32 for each.
   */
  readonly maxMetadataBytes: number
  readonly maxConcurrentStreams: number
  /** A connection older than this, give or take 10 %, is told to go; 0 for never. */
  readonly maxConnectionAgeMs: number
  /** What still runs on a connection that was told to go is cut after this; 0 for never. */
  readonly maxConnectionAgeGraceMs: number
  /**
   * A request message of more than 1 KiB that is not complete this long after its first part, while the server waits for
   * the rest, ends the call with DEADLINE_EXCEEDED.
   */
  readonly requestTimeoutMs: number
  /** A caller that takes longer for its TLS handshake is refused. */
  readonly handshakeTimeoutMs: number
  /** Connections beyond so many unfinished TLS handshakes of an address are closed at once. */
  readonly maxHandshakes: number
  /** The same for those that come from one peer address, so that one cannot lock out the others. */
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

/** What grpc.health.v1 tells of each service. The name `''` stands for the whole server. */
export interface HealthTable {
  /** undefined for a name that nobody set: Check answers NOT_FOUND, Watch SERVICE_UNKNOWN. */
  get(service: string): boolean | undefined
  set(service: string, serving: boolean): void
  /** Calls back after each change until the returned function is called. */
  subscribe(listener: () => void): () => void
  /** Every name is not serving from now on, whatever is set later. The server's `drain` calls it. */
  drain(): void
}
