import { X509Certificate } from 'node:crypto'
import type { Socket } from 'node:net'
import {
  Server,
  ServerCredentials,
  ServerInterceptingCall,
  type ServerInterceptingCallInterface,
  type ServerInterceptor,
} from '@grpc/grpc-js'
import { systemClock } from '@tollway/chassis/clock.ts'
import { type CallWire, StreamCall } from '../../../calls/stream-call.ts'
import { fromGrpcJsMetadata, toGrpcJsMetadata } from '../../../client/client.ts'
import { messagePrefixBytes } from '../../../http2/streams/stream.ts'
import {
  type AnyMethod,
  type BoundAddress,
  defaultLimits,
  type GrpcLimits,
  type GrpcServer,
  type GrpcServerOptions,
  type ListenAddress,
  type Metadata,
} from '../../../server.ts'
import { GrpcError, statusCodes } from '../../../status.ts'
import { type HealthTable, healthMethods, healthWatchPath } from '../../health.ts'
import { type Listener, openListener } from '../../listener.ts'
import { peerName } from '../../peer-name.ts'

/** The time that peers have to receive the status of calls that were aborted at the end of a drain. */
const cutFlushMs = 500

/**
 * Creates a server that implements the contract with @grpc/grpc-js: a reference for tests, since callers
 * expect what both servers have in common. No process uses it. The library implements HTTP/2 and gRPC's
 * framing. Sockets are bound here, because the library cannot share a port. `StreamCall` runs the handlers,
 * because the library's own streams buffer sixteen messages.
 *
 * Limitations of the library: a deadline beyond 24 days overflows its arithmetic; more than 128 fields of
 * metadata lead to a reset, and a field beyond 64 KiB ends its connection; the jitter of the connection age
 * is Math.random.
 */
export function createGrpcJsServer(options: GrpcServerOptions): GrpcServer {
  const limits = { ...defaultLimits, ...options.limits }
  const { health } = options
  const all = health ? [...options.methods, ...healthMethods(health)] : options.methods
  const methods = new Map(all.map(method => [method.path, method]))
  const calls = createCallRegister()
  const server = createServer(methods, limits, options.onDefect, calls)
  const connections = createConnections(server, limits)

  return {
    listen: connections.listen,
    drain: createDrain(health, { ...connections, ...calls }),
    get activeCalls() {
      return calls.size()
    },
  }
}

/**
 * Creates a server of the library on which `StreamCall` runs each call. Every method is registered as `bidi`,
 * for which the library leaves reading and writing to the handler. The registered handler is never called,
 * since an interceptor takes the call first.
 */
function createServer(
  methods: ReadonlyMap<string, AnyMethod>,
  limits: GrpcLimits,
  onDefect: GrpcServerOptions['onDefect'],
  calls: CallRegister,
): Server {
  const intercept: ServerInterceptor = ({ path }, call) =>
    new ServerInterceptingCall(call, {
      start() {
        const method = methods.get(path)
        if (method) startCall(method, call, limits, onDefect, calls)
      },
    })
  const server = new Server({
    'grpc.enable_channelz': 0,
    'grpc.max_receive_message_length': limits.maxReceiveBytes,
    'grpc.max_send_message_length': -1,
    'grpc.max_concurrent_streams': limits.maxConcurrentStreams,
    ...(limits.maxConnectionAgeMs > 0 && { 'grpc.max_connection_age_ms': limits.maxConnectionAgeMs }),
    ...(limits.maxConnectionAgeGraceMs > 0 && {
      'grpc.max_connection_age_grace_ms': limits.maxConnectionAgeGraceMs,
    }),
    interceptors: [intercept],
  })
  for (const path of methods.keys()) {
    server.register<Buffer, Buffer>(path, unreachable, asIs, asIs, 'bidi')
  }
  return server
}

const asIs = (bytes: Buffer) => bytes
const unreachable = () => {}

function startCall(
  method: AnyMethod,
  call: ServerInterceptingCallInterface,
  limits: GrpcLimits,
  onDefect: GrpcServerOptions['onDefect'],
  calls: CallRegister,
): void {
  let running: StreamCall | undefined
  call.start({
    onReceiveMetadata(received) {
      const metadata = fromGrpcJsMetadata(received)
      const bytes = headerListBytes(metadata)
      if (bytes > limits.maxMetadataBytes) {
        const details = `the metadata has ${bytes} bytes, at most ${limits.maxMetadataBytes} are allowed`
        call.sendStatus({ code: statusCodes.RESOURCE_EXHAUSTED, details })
        return
      }
      const wire = toWire(call, metadata, () => running?.taken())
      running = calls.run(
        method.path,
        onEnd => new StreamCall(method, wire, { maxSendBytes: limits.maxSendBytes, onDefect, onEnd }),
      )
    },
    onReceiveMessage: bytes => running?.receive(bytes),
    onReceiveHalfClose: () => running?.halfClose(),
    onCancel: () => running?.disconnect(true),
  })
}

function toWire(call: ServerInterceptingCallInterface, metadata: Metadata, onTaken: () => void): CallWire {
  // The library's deadline is in the time of the machine's clock.
  const deadlineMs = Number(call.getDeadline()) - systemClock.nowMs() + systemClock.monotonicMs()
  const queue = createQueue(call, onTaken)
  let headersSent = false
  return {
    metadata,
    peer: peerName(call.getConnectionInfo()),
    peerCertificate: certificateOf(call),
    deadlineMs: Number.isFinite(deadlineMs) ? deadlineMs : undefined,
    read: () => call.startRead(),
    sendHeaders(headers) {
      if (headersSent) throw new Error('the headers are sent already')
      call.sendMetadata(toGrpcJsMetadata(headers))
      headersSent = true
    },
    ...queue,
    sendMessage(bytes) {
      headersSent = true
      queue.sendMessage(bytes)
    },
    sendParts(parts) {
      headersSent = true
      queue.sendMessage(Buffer.concat(parts))
    },
    // The library percent-encodes the message with encodeURI, which throws for an unpaired surrogate.
    sendStatus({ code, message, trailers }) {
      const metadata = toGrpcJsMetadata(trailers)
      queue.discardQueued()
      call.sendStatus({ code, details: message.toWellFormed(), metadata })
    },
  }
}

/**
 * Creates a queue that passes one message at a time to the library, which cannot drop the messages in its own
 * queue.
 */
function createQueue(
  call: ServerInterceptingCallInterface,
  onTaken: () => void,
): Pick<CallWire, 'sendMessage' | 'queuedBytes' | 'discardQueued'> {
  let queue: { readonly bytes: Buffer }[] = []
  let queuedBytes = 0
  let sending = false

  function sendNext(): void {
    const [next] = queue
    if (sending || next === undefined) return
    sending = true
    call.sendMessage(next.bytes, () => {
      sending = false
      if (queue[0] === next) {
        queue.shift()
        queuedBytes -= messagePrefixBytes + next.bytes.length
      }
      sendNext()
      onTaken()
    })
  }

  function sendMessage(bytes: Uint8Array): void {
    queue.push({ bytes: Buffer.from(bytes) })
    queuedBytes += messagePrefixBytes + bytes.length
    sendNext()
  }

  return {
    sendMessage,
    queuedBytes: () => queuedBytes,
    discardQueued() {
      queue = []
      queuedBytes = 0
    },
  }
}

function certificateOf(call: ServerInterceptingCallInterface): X509Certificate | undefined {
  const { raw } = call.getAuthContext().sslPeerCertificate ?? {}
  return raw && new X509Certificate(raw)
}

type CallRegister = ReturnType<typeof createCallRegister>

/** Creates the register of running calls. */
function createCallRegister() {
  const running = new Map<() => void, { readonly path: string; readonly call: StreamCall }>()
  let onQuiet: (() => void) | undefined

  function tellQuiet(): void {
    if (onQuiet && [...running.values()].every(({ path }) => path === healthWatchPath)) onQuiet()
  }

  return {
    size: () => running.size,
    run(path: string, start: (onEnd: () => void) => StreamCall): StreamCall {
      const onEnd = () => {
        running.delete(onEnd)
        tellQuiet()
      }
      const call = start(onEnd)
      running.set(onEnd, { path, call })
      return call
    },
    onlyWatchesLeft(): Promise<void> {
      return new Promise(resolve => {
        onQuiet = resolve
        tellQuiet()
      })
    },
    cutCalls(error: GrpcError): void {
      for (const { call } of running.values()) call.cut(error)
    },
  }
}

/** Creates the keeper of a server's listeners and of their connections. */
function createConnections(server: Server, limits: GrpcLimits) {
  const injector = server.createConnectionInjector(ServerCredentials.createInsecure())
  const listeners = new Set<Listener>()
  const sockets = new Set<Socket>()
  const { promise: allClosed, resolve: onAllClosed } = Promise.withResolvers<void>()
  let isClosing = false

  function accept(socket: Socket): void {
    if (isClosing) {
      socket.destroy()
      return
    }
    sockets.add(socket)
    socket.once('close', () => {
      sockets.delete(socket)
      if (isClosing && sockets.size === 0) onAllClosed()
    })
    injector.injectConnection(socket)
  }

  return {
    async listen(address: ListenAddress): Promise<BoundAddress> {
      if (isClosing) throw new Error('listen: the server is shut down')
      const listener = await openListener(address, limits, accept)
      listeners.add(listener)
      if (isClosing) listener.close()
      return listener.bound
    },
    stopAccepting(): void {
      isClosing = true
      for (const listener of listeners) listener.close()
      injector.destroy()
      if (sockets.size === 0) onAllClosed()
    },
    /**
     * Waits until the peers have taken the sent bytes or the grace period is over, and then `cutFlushMs`
     * more.
     */
    async closed(graceOver: Promise<void>): Promise<void> {
      const moment = Promise.withResolvers<void>()
      const timer = setTimeout(moment.resolve, cutFlushMs)
      await Promise.race([allClosed, Promise.all([graceOver, moment.promise])])
      clearTimeout(timer)
      for (const socket of sockets) socket.destroy()
      await allClosed
    },
  }
}

/**
 * Returns the size of metadata as RFC 9113 (6.5.2) counts a header list: names, values (bytes as base64), and
 * 32 for each value.
 */
function headerListBytes(metadata: Metadata): number {
  let bytes = 0
  for (const [name, values] of metadata) {
    for (const value of values) {
      bytes +=
        32 + name.length + (typeof value === 'string' ? value.length : Math.ceil((value.length * 4) / 3))
    }
  }
  return bytes
}

/** What a drain needs of a server. */
interface Drainable {
  /** Accepts no more connections, and sends GOAWAY, so that peers begin no more calls. */
  stopAccepting(): void
  /** Health watches do not end by themselves. */
  onlyWatchesLeft(): Promise<void>
  cutCalls(error: GrpcError): void
  /** Resolves when no connection is left; closes those that are left at the end of the grace period. */
  closed(graceOver: Promise<void>): Promise<void>
}

/** See `GrpcServer.drain`. */
function createDrain(health: HealthTable | undefined, server: Drainable): (graceMs: number) => Promise<void> {
  const { promise: graceOver, resolve: endGrace } = Promise.withResolvers<void>()
  let drained: Promise<void> | undefined

  async function drain(): Promise<void> {
    health?.drain()
    // In this turn, each Watch sends NOT_SERVING, before GOAWAY is sent.
    await new Promise(resolve => setImmediate(resolve))
    server.stopAccepting()
    await Promise.race([server.onlyWatchesLeft(), graceOver])
    server.cutCalls(new GrpcError('UNAVAILABLE', 'the server is shutting down'))
    await server.closed(graceOver)
  }

  return graceMs => {
    const timer = setTimeout(endGrace, graceMs)
    drained ??= drain()
    return drained.finally(() => clearTimeout(timer))
  }
}
