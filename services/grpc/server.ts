/**
 * The contract of a gRPC server, as all our services use it. A method is a path, a codec and a handler; what
 * the
 * bytes mean is its own business. `server-contract.test.ts` holds every fulfilment to what is said here.
 */
export interface GrpcServer {
  /**
   * Binds and serves. May be called for several addresses. Rejects with a system error (`EADDRINUSE`, ...)
   * when the
   * address cannot be bound.
   */
  listen(address: ListenAddress): Promise<BoundAddress>
  /**
   * Ends in peace: health says NOT_SERVING, no new connection is taken, peers are told by GOAWAY, running
   * calls end.
   * What still runs after `graceMs` is cut with UNAVAILABLE. Resolves when nothing is left. May be called
   * twice.
   */
  drain(graceMs: number): Promise<void>
  /** Calls that have begun and not ended, health checks included. */
  readonly activeCalls: number
}

export type ListenAddress =
  | {
      readonly host: string
      /** 0 asks for a free port. */
      readonly port: number
      /** Shares the port with other processes (SO_REUSEPORT): the kernel spreads connections over them. */
      readonly reusePort?: boolean
    }
  | { readonly socketPath: string }

export type BoundAddress = { readonly host: string; readonly port: number } | { readonly socketPath: string }

/**
 * Encodes and decodes the messages of one method. `decode` throws for bytes that are no message: the caller
 * gets INTERNAL.
 */
export interface Codec<In, Out> {
  decode(bytes: Uint8Array): In
  encode(message: Out): Uint8Array
}

/** One call, as a handler sees it. */
export interface Call {
  /**
   * What the caller sent. Names are lower case; of a name sent twice, all values in order. `-bin` values are
   * bytes.
   */
  readonly metadata: Metadata
  /** The caller's address, `host:port` or `unix`. For logs only. */
  readonly peer: string
  /** When the caller gives up, in milliseconds since the epoch; undefined when it waits for ever. */
  readonly deadlineMs: number | undefined
  /**
   * Aborted as soon as nobody waits for an answer any more: cancelled, deadline passed, connection lost or
   * cut.
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
 * a defect:
 * the caller gets INTERNAL without its text, and `onDefect` gets it.
 */
export type Method<In, Out> = Codec<In, Out> & {
  /** `/package.Service/Method`. */
  readonly path: string
} & (
    | { readonly kind: 'unary'; handle(request: In, call: Call): Out | Promise<Out> }
    | { readonly kind: 'client-stream'; handle(requests: AsyncIterable<In>, call: Call): Promise<Out> }
    /**
     * The next message is asked for only when the connection has taken the last: a slow reader slows its
     * writer.
     */
    | { readonly kind: 'server-stream'; handle(request: In, call: Call): AsyncIterable<Out> }
    | { readonly kind: 'bidi'; handle(requests: AsyncIterable<In>, call: Call): AsyncIterable<Out> }
  )

/** Methods of unlike messages, in one list. */
// biome-ignore lint/suspicious/noExplicitAny: a list of methods forgets what each one's messages are
export type AnyMethod = Method<any, any>

export interface GrpcServerOptions {
  readonly methods: readonly AnyMethod[]
  readonly limits?: Partial<GrpcLimits>
  /** Serves grpc.health.v1 from this table when given. */
  readonly health?: HealthTable
  /** Told of every defect of a handler; the process goes on. */
  onDefect(path: string, error: unknown): void
}

export interface GrpcLimits {
  /** A longer request message is answered by RESOURCE_EXHAUSTED before it is buffered. */
  readonly maxReceiveBytes: number
  /** A longer answer is the caller's RESOURCE_EXHAUSTED. */
  readonly maxSendBytes: number
  readonly maxMetadataBytes: number
  readonly maxConcurrentStreams: number
  /** A connection older than this, give or take 10 %, is told to go; 0 for never. */
  readonly maxConnectionAgeMs: number
  readonly maxConnectionAgeGraceMs: number
}

export const defaultLimits: GrpcLimits = {
  maxReceiveBytes: 4 * 1024 * 1024,
  maxSendBytes: 64 * 1024 * 1024,
  maxMetadataBytes: 16 * 1024,
  maxConcurrentStreams: 1000,
  maxConnectionAgeMs: 0,
  maxConnectionAgeGraceMs: 0,
}

/** What grpc.health.v1 tells of each service. The name `''` stands for the whole server. */
export interface HealthTable {
  /** undefined for a name that nobody set: Check answers NOT_FOUND, Watch SERVICE_UNKNOWN. */
  get(service: string): boolean | undefined
  set(service: string, serving: boolean): void
  /** Calls back after each change until the returned function is called. */
  subscribe(listener: () => void): () => void
}

