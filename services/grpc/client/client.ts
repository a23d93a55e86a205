import {
  Client,
  type ClientDuplexStream,
  connectivityState,
  credentials,
  type ServiceError,
} from '@grpc/grpc-js'
import { systemClock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import type { Codec, Metadata } from '../server.ts'
import { GrpcError, statusName } from '../status.ts'
import { type ClientTls, toChannelCredentials } from './client-tls.ts'
import { asBuffer, fromGrpcJsMetadata, toGrpcJsMetadata } from './grpc-js-metadata.ts'
import { logGrpcJs } from './log-grpc-js.ts'
import { withTcpKeepalive } from './tcp-keepalive.ts'

/** One connection to a gRPC server. The first call opens it, and a later one reopens it after a loss. */
export interface GrpcClient {
  /**
   * Rejects with a `GrpcError`: the server's status, or UNAVAILABLE, DEADLINE_EXCEEDED or CANCELLED of this
   * client.
   */
  unary<In, Out>(path: string, codec: Codec<Out, In>, request: In, options?: UnaryOptions): Promise<Out>
  /** Starts a call of any streaming kind: calls with a single request write it and `end()`. */
  bidi<In, Out>(path: string, codec: Codec<Out, In>, options?: CallOptions): BidiCall<In, Out>
  /** Rejects later calls. Running calls continue; their signals can end them. */
  close(): void
}

export interface GrpcClientOptions {
  /** A longer answer is RESOURCE_EXHAUSTED. Defaults to 4 MiB. */
  readonly maxReceiveBytes?: number | undefined
  /**
   * The flow-control window of the connection and of each call, in bytes. Defaults to 65,535, with which each
   * MiB of an answer costs 16 round trips. Set it for a trusted server with large answers.
   */
  readonly windowBytes?: number | undefined
  /** Sent with every call; a call's metadata with the same name takes precedence. */
  readonly metadata?: Metadata | undefined
  /** Without it, calls are not encrypted. */
  readonly tls?: ClientTls | undefined
  /**
   * The interval of HTTP/2 pings while a call runs; no pings when left out. Servers limit pings: grpc-go
   * permits one in 5 minutes by default and closes a connection that exceeds it, after which the interval
   * doubles. Set it only for servers that permit it. TCP keepalive finds half-open connections without pings.
   */
  readonly keepaliveMs?: number | undefined
  /** Calls become UNAVAILABLE when a ping has no answer for this long. Defaults to 10,000. */
  readonly keepaliveTimeoutMs?: number | undefined
  /**
   * A connection that takes longer is abandoned, and the calls that wait for it are UNAVAILABLE. Defaults to
   * 3,000.
   */
  readonly connectTimeoutMs?: number | undefined
  /** Receives the library's messages, for every client in this process; they go to the console without it. */
  readonly log?: Log | undefined
}

export interface CallOptions {
  /** Cancels the call. */
  readonly signal?: AbortSignal | undefined
  readonly metadata?: Metadata | undefined
}

export interface UnaryOptions extends CallOptions {
  /** The timeout, which is sent to the server; the call rejects with DEADLINE_EXCEEDED when it has passed. */
  readonly timeoutMs?: number | undefined
}

export interface BidiCall<In, Out> {
  /**
   * Resolves when there is room for the next message, or the call is over; never rejects, so that a caller
   * with few messages need not wait. `messages` reports errors. Throws after `end()`.
   */
  write(message: In): Promise<void>
  /** Ends the requests. */
  end(): void
  /**
   * Ends when the server ended the call with OK, and otherwise throws a `GrpcError`: UNAVAILABLE when the
   * server disconnected. Iterate it once; leaving the loop cancels the call.
   */
  readonly messages: AsyncIterable<Out>
  /** The initial metadata of the answer; never settles when the call ends without any. */
  readonly headers: Promise<Metadata>
}

const defaultMaxReceiveBytes = 4 * 1024 * 1024
const defaultKeepaliveTimeoutMs = 10_000
const defaultConnectTimeoutMs = 3_000

/** Short delays, since callers have their own policies for retries. */
const initialReconnectMs = 100
const maxReconnectMs = 1_000

/** Creates a client for `host:port` or `unix:/path`. It does not connect yet, so it never fails. */
export function createGrpcClient(target: string, options: GrpcClientOptions = {}): GrpcClient {
  const { connectTimeoutMs = defaultConnectTimeoutMs, log } = options
  if (log !== undefined) logGrpcJs(log)
  let client = openChannel(target, options)
  let patience: NodeJS.Timeout | undefined

  /** Returns the channel for a call, and limits the time of its connection attempt. */
  function channel(): Client {
    if (patience === undefined && stateOf(client) !== connectivityState.READY) {
      patience = setTimeout(giveUpConnecting, connectTimeoutMs)
      patience.unref()
    }
    return client
  }

  /**
   * The library waits as long as the kernel does: an address that was removed between two attempts costs more
   * than a minute of silence, although the name may resolve to another address by then. The library does not
   * report it either: after a first failure the channel is in TRANSIENT_FAILURE until it is connected.
   */
  function giveUpConnecting(): void {
    patience = undefined
    const state = stateOf(client)
    if (state === connectivityState.READY || state === connectivityState.IDLE) return
    const stuck = client
    client = openChannel(target, options)
    stuck.close()
  }

  function unary<In, Out>(
    path: string,
    codec: Codec<Out, In>,
    request: In,
    { timeoutMs, signal, metadata }: UnaryOptions = {},
  ): Promise<Out> {
    if (signal?.aborted) return Promise.reject(cancelled())
    const { promise, resolve, reject } = Promise.withResolvers<Out>()
    const call = channel().makeUnaryRequest<In, Out>(
      path,
      message => asBuffer(codec.encode(message)),
      bytes => codec.decode(bytes),
      request,
      metadataOf(metadata),
      timeoutMs === undefined ? {} : { deadline: systemClock.nowMs() + timeoutMs },
      (error, answer) => {
        stopListening()
        if (error) reject(toGrpcError(error))
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
    const stream = channel().makeBidiStreamRequest<In, Out>(
      path,
      message => asBuffer(codec.encode(message)),
      bytes => codec.decode(bytes),
      metadataOf(metadata),
    )
    stream.once(
      'status',
      onAbort(signal, () => cancel(stream)),
    )
    return toBidiCall(stream)
  }

  function metadataOf(ofCall: Metadata | undefined) {
    return toGrpcJsMetadata(new Map([...(options.metadata ?? []), ...(ofCall ?? [])]))
  }

  return {
    unary,
    bidi,
    close() {
      clearTimeout(patience)
      client.close()
    },
  }
}

/** Running calls of the channel continue when it is closed. */
function openChannel(target: string, options: GrpcClientOptions): Client {
  const { tls } = options
  const channelCredentials = tls ? toChannelCredentials(tls) : credentials.createInsecure()
  return new Client(target, withTcpKeepalive(channelCredentials), {
    'grpc.max_receive_message_length': options.maxReceiveBytes ?? defaultMaxReceiveBytes,
    'grpc.max_send_message_length': -1,
    ...(options.windowBytes !== undefined && { 'grpc-node.flow_control_window': options.windowBytes }),
    ...(options.keepaliveMs !== undefined && { 'grpc.keepalive_time_ms': options.keepaliveMs }),
    'grpc.keepalive_timeout_ms': options.keepaliveTimeoutMs ?? defaultKeepaliveTimeoutMs,
    'grpc.keepalive_permit_without_calls': 0,
    ...(tls && { 'grpc.ssl_target_name_override': tls.serverName }),
    'grpc.initial_reconnect_backoff_ms': initialReconnectMs,
    'grpc.max_reconnect_backoff_ms': maxReconnectMs,
    'grpc.dns_min_time_between_resolutions_ms': maxReconnectMs,
    'grpc.service_config_disable_resolution': 1,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.enable_http_proxy': 0,
    'grpc.enable_channelz': 0,
  })
}

const stateOf = (client: Client) => client.getChannel().getConnectivityState(false)

function toBidiCall<In, Out>(stream: ClientDuplexStream<In, Out>): BidiCall<In, Out> {
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
        else if (failure) throw toGrpcError(failure)
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
 * grpc-js starts a call that is cancelled in the same moment nevertheless, and it would never end at the
 * server; so it is cancelled again after it has started.
 */
function cancel(call: { cancel(): void }): void {
  call.cancel()
  setImmediate(() => call.cancel())
}

/** Adds an abort listener; the returned function removes it. */
function onAbort(signal: AbortSignal | undefined, listener: () => void): () => void {
  signal?.addEventListener('abort', listener)
  return () => signal?.removeEventListener('abort', listener)
}

function toGrpcError(error: ServiceError): GrpcError {
  return new GrpcError(statusName(error.code), error.details, fromGrpcJsMetadata(error.metadata))
}
