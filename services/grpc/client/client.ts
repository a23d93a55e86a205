import {
  type ClientDuplexStream,
  Metadata as GrpcJsMetadata,
  type ServiceError,
  setLogger,
} from '@grpc/grpc-js'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { reservedNames } from '../reserved-names.ts'
import type { Codec, Metadata } from '../server.ts'
import { GrpcError, statusName } from '../status.ts'
import { Channel, type ChannelOptions } from './channel.ts'

/** One connection to a gRPC server, which a call opens if there is none. */
export interface GrpcClient {
  /**
   * Rejects with a `GrpcError`: the status of the server, or UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED of
   * this client.
   */
  unary<In, Out>(path: string, codec: Codec<Out, In>, request: In, options?: UnaryOptions): Promise<Out>
  /** Begins a call of any streaming kind. For a method with a single request, `write` it once and `end`. */
  bidi<In, Out>(path: string, codec: Codec<Out, In>, options?: CallOptions): BidiCall<In, Out>
  /** Closes the connection when it has no calls: running calls continue, and end by their signals. */
  close(): void
}

export interface GrpcClientOptions extends ChannelOptions {
  /** The metadata of every call; a name in the metadata of the call itself takes precedence. */
  readonly metadata?: Metadata | undefined
  /** Receives the messages of grpc-js in this process; without a log, they go to the console. */
  readonly log?: Log | undefined
}

interface CallOptions {
  readonly signal?: AbortSignal | undefined
  readonly metadata?: Metadata | undefined
}

export interface UnaryOptions extends CallOptions {
  /** After this time the call rejects with DEADLINE_EXCEEDED. The server receives the timeout too. */
  readonly timeoutMs?: number | undefined
}

export interface BidiCall<In, Out> {
  /**
   * Resolves when there is room for the next message, or the call is over; never rejects, since `messages`
   * reports errors. Throws after `end()`.
   */
  write(message: In): Promise<void>
  /** Tells the server that no more requests follow. */
  end(): void
  /**
   * The answers, which can be iterated once; leaving the loop cancels the call. Throws a `GrpcError` unless
   * the server ends the call with OK; UNAVAILABLE if the server disconnected.
   */
  readonly messages: AsyncIterable<Out>
  /** The initial metadata of the answer; never settles if the call ends without any. */
  readonly headers: Promise<Metadata>
}

/**
 * Creates a client for `host:port` or `unix:/path`. It connects with the first call, so this function never
 * fails.
 */
export function createGrpcClient(target: string, options: GrpcClientOptions = {}): GrpcClient {
  if (options.log !== undefined) logGrpcJs(options.log)
  const channel = new Channel(target, options)

  function unary<In, Out>(
    path: string,
    codec: Codec<Out, In>,
    request: In,
    { timeoutMs, signal, metadata }: UnaryOptions = {},
  ): Promise<Out> {
    if (signal?.aborted) return Promise.reject(cancelled())
    const { promise, resolve, reject } = Promise.withResolvers<Out>()
    const client = channel.open()
    const call = client.makeUnaryRequest<In, Out>(
      path,
      message => asBuffer(codec.encode(message)),
      bytes => codec.decode(bytes),
      request,
      mergeMetadata(metadata),
      timeoutMs === undefined ? {} : { deadline: systemClock.nowMs() + timeoutMs },
      (error, answer) => {
        stopListening()
        if (error) reject(toGrpcError(error, channel.findConnectFailure(client)))
        else resolve(answer as Out)
      },
    )
    const stopListening = onAbort(signal, () => cancel(call))
    return promise
  }

  function bidi<In, Out>(
    path: string,
    codec: Codec<Out, In>,
    { signal, metadata }: CallOptions = {},
  ): BidiCall<In, Out> {
    if (signal?.aborted) return cancelledCall()
    const client = channel.open()
    const stream = client.makeBidiStreamRequest<In, Out>(
      path,
      message => asBuffer(codec.encode(message)),
      bytes => codec.decode(bytes),
      mergeMetadata(metadata),
    )
    stream.once(
      'status',
      onAbort(signal, () => cancel(stream)),
    )
    return toBidiCall(stream, error => toGrpcError(error, channel.findConnectFailure(client)))
  }

  function mergeMetadata(ofCall: Metadata | undefined) {
    return toGrpcJsMetadata(new Map([...(options.metadata ?? []), ...(ofCall ?? [])]))
  }

  return {
    unary,
    bidi,
    close: () => channel.close(),
  }
}

function toBidiCall<In, Out>(
  stream: ClientDuplexStream<In, Out>,
  toError: (error: ServiceError) => GrpcError,
): BidiCall<In, Out> {
  let failure: ServiceError | undefined
  let allRead = false
  let answered = false
  let halfClosed = false
  let room: PromiseWithResolvers<void> | undefined
  let wakeReader = () => {}
  const headers = new Promise<Metadata>(resolve => {
    stream.once('metadata', metadata => resolve(fromGrpcJsMetadata(metadata)))
  })

  function onRoom(): void {
    room?.resolve()
    room = undefined
  }

  stream.on('readable', () => wakeReader())
  stream.on('drain', onRoom)
  stream.on('error', (error: ServiceError) => {
    failure = error
    wakeReader()
  })
  stream.on('end', () => {
    allRead = true
    wakeReader()
  })
  stream.on('status', () => {
    answered = true
    onRoom()
  })

  async function* readMessages(): AsyncGenerator<Out> {
    try {
      for (;;) {
        const message: Out | null = stream.read()
        if (message !== null) yield message
        else if (failure) throw toError(failure)
        else if (allRead) return
        else await new Promise<void>(resolve => (wakeReader = resolve))
      }
    } finally {
      stream.cancel()
    }
  }

  return {
    messages: readMessages(),
    headers,
    write(message) {
      if (halfClosed) throw new Error('write: the call was ended')
      if (answered || stream.write(message)) return Promise.resolve()
      room ??= Promise.withResolvers()
      return room.promise
    },
    end() {
      halfClosed = true
      stream.end()
    },
  }
}

function cancelledCall<Out>(): BidiCall<unknown, Out> {
  // biome-ignore lint/correctness/useYield: it throws before it can yield
  async function* readMessages(): AsyncGenerator<Out> {
    throw cancelled()
  }
  return {
    messages: readMessages(),
    headers: new Promise(() => {}),
    write: () => Promise.resolve(),
    end() {},
  }
}

function cancelled(): GrpcError {
  return new GrpcError('CANCELLED', 'the call was cancelled before it began')
}

/**
 * Cancels a call. If that happens at the moment the call is made, grpc-js still starts it, and it would never
 * end at the server; so it is cancelled again after the start.
 */
function cancel(call: { cancel(): void }): void {
  call.cancel()
  setImmediate(() => call.cancel())
}

/** Adds a listener; the returned function removes it. */
function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  signal?.addEventListener('abort', listener)
  return () => signal?.removeEventListener('abort', listener)
}

function toGrpcError(error: ServiceError, details = error.details): GrpcError {
  return new GrpcError(statusName(error.code), details, fromGrpcJsMetadata(error.metadata))
}

/** @throws Error for a name that is reserved or invalid, and for a text value that is not printable ASCII */
export function toGrpcJsMetadata(metadata: Metadata | undefined): GrpcJsMetadata {
  const result = new GrpcJsMetadata()
  for (const [name, values] of metadata ?? []) {
    if (name.startsWith(':') || reservedNames.has(name.toLowerCase())) {
      throw new Error(`metadata "${name}": the name belongs to the transport`)
    }
    for (const value of values) result.add(name, typeof value === 'string' ? value : asBuffer(value))
  }
  return result
}

export function fromGrpcJsMetadata(metadata: GrpcJsMetadata): Metadata {
  return new Map(Object.entries(metadata.toJSON()))
}

/** Returns a Buffer of the same memory, which grpc-js requires for bytes. */
function asBuffer(bytes: Uint8Array): Buffer {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}

/**
 * Logs errors of grpc-js as warnings, since the affected calls report their own. grpc-js has one logger for
 * the process: the latest call of this function decides.
 */
function logGrpcJs(log: Log): void {
  setLogger({
    error: (text: string) => log.warn('report library output', { library: 'grpc-js', text }),
    info: (text: string) => log.info('report library output', { library: 'grpc-js', text }),
    debug: (text: string) => log.debug('report library output', { library: 'grpc-js', text }),
  })
}
