import type { Socket } from 'node:net'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { type CallContext, CallRegister, CallTotals } from './call-context.ts'
import { healthMethods } from './health.ts'
import { Connection } from './http2/connection.ts'
import { indexMethods } from './index-methods.ts'
import { type Listener, openListener } from './listener.ts'
import { routeCall } from './route-call.ts'
import {
  type AnyMethod,
  type BoundAddress,
  defaultLimits,
  type GrpcLimits,
  type GrpcServer,
  type GrpcServerOptions,
  type ListenAddress,
} from './server.ts'
import { GrpcError } from './status.ts'

/** What a test replaces. */
export interface SocketServerSettings {
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  /** A silent connection is asked for a sign of life after this, and cut after as long again. */
  readonly keepaliveMs: number
}

const defaultSettings: SocketServerSettings = {
  clock: systemClock,
  random: Math.random,
  keepaliveMs: 60_000,
}

/** How long peers have to take the status of a call that was cut at the end of a drain. */
const cutFlushMs = 500
/** What a request's head has beside its metadata: path, authority, content-type and the like. */
const transportFieldsBytes = 8 * 1024
/** The age of a connection varies by this share, so that those of one moment do not all go in one. */
const ageJitter = 0.1

/**
 * The contract fulfilled by our own HTTP/2 over sockets. `http2/` knows nothing of gRPC, what is beside it
 * nothing of frames; `stream.ts` is where they meet.
 */
export function createSocketServer(
  options: GrpcServerOptions,
  settings: Partial<SocketServerSettings> = {},
): GrpcServer {
  const limits = { ...defaultLimits, ...options.limits }
  const { health, onDefect } = options
  const methods = indexMethods(health ? [...options.methods, ...healthMethods(health)] : options.methods)
  const totals = new CallTotals()
  const shared = { methods, limits, onDefect, totals, settings: { ...defaultSettings, ...settings } }
  const connections = createConnections(shared)
  const graceOver = Promise.withResolvers<void>()
  let drained: Promise<void> | undefined

  async function drain(): Promise<void> {
    health?.drain()
    // A turn of the event loop, in which each Watch says NOT_SERVING before anything else happens to it.
    await new Promise(resolve => setImmediate(resolve))
    connections.refuseMore()
    await Promise.race([totals.onlyWatchesLeft(), graceOver.promise])
    connections.cutCalls(new GrpcError('UNAVAILABLE', 'the server is shutting down'))
    await connections.closed(graceOver.promise)
  }

  return {
    listen: connections.listen,
    drain(graceMs) {
      const timer = setTimeout(graceOver.resolve, graceMs)
      drained ??= drain()
      return drained.finally(() => clearTimeout(timer))
    },
    get activeCalls() {
      return totals.size
    },
  }
}

/** What all connections of a server have in common. */
interface Shared {
  readonly methods: ReadonlyMap<string, AnyMethod>
  readonly limits: GrpcLimits
  readonly onDefect: GrpcServerOptions['onDefect']
  readonly totals: CallTotals
  readonly settings: SocketServerSettings
}

interface Served {
  readonly connection: Connection
  readonly calls: CallRegister
}

/** The listeners and the connections that they took. */
function createConnections(shared: Shared) {
  const listeners = new Set<Listener>()
  const open = new Set<Served>()
  const { promise: allClosed, resolve: onAllClosed } = Promise.withResolvers<void>()
  let refusing = false

  function accept(socket: Socket): void {
    if (refusing) {
      socket.destroy()
      return
    }
    const served = serveSocket(socket, shared, () => {
      open.delete(served)
      if (refusing && open.size === 0) onAllClosed()
    })
    open.add(served)
  }

  return {
    async listen(address: ListenAddress): Promise<BoundAddress> {
      if (refusing) throw new Error('listen: the server is shut down')
      const listener = await openListener(address, accept)
      listeners.add(listener)
      if (refusing) listener.close()
      return listener.bound
    },
    /** Stops listening, and tells every peer by GOAWAY to begin no more calls. */
    refuseMore(): void {
      refusing = true
      for (const listener of listeners) listener.close()
      for (const { connection } of [...open]) connection.drain()
      if (open.size === 0) onAllClosed()
    },
    cutCalls(error: GrpcError): void {
      for (const { calls } of open) calls.cutAll(error)
    },
    /** Waits for the peers to go, until the grace is over; then they have a moment to take what was sent. */
    async closed(graceOver: Promise<void>): Promise<void> {
      await Promise.race([allClosed, graceOver])
      for (const { connection } of [...open]) connection.end()
      const moment = Promise.withResolvers<void>()
      const timer = setTimeout(moment.resolve, cutFlushMs)
      await Promise.race([allClosed, moment.promise])
      clearTimeout(timer)
      for (const { connection } of open) connection.destroy()
      await allClosed
    },
  }
}

/** Serves one connected socket: of TCP, a unix path or TLS. */
function serveSocket(socket: Socket, shared: Shared, onClosed: () => void): Served {
  const { methods, limits, onDefect, totals, settings } = shared
  const calls = new CallRegister(totals)
  const context: CallContext = { limits, onDefect, calls, peer: peerName(socket) }
  const connection = new Connection(socket, {
    maxConcurrentStreams: limits.maxConcurrentStreams,
    maxHeaderListBytes: limits.maxMetadataBytes + transportFieldsBytes,
    keepaliveMs: settings.keepaliveMs,
    clock: settings.clock,
    route: request => routeCall(methods, context, request),
    onDefect: error => onDefect('', error),
    onClosed() {
      stopAging()
      onClosed()
    },
  })
  const served = { connection, calls }
  const stopAging = startAging(served, limits, settings.random)
  return served
}

/** Tells an old connection to go, and cuts what still runs on it after the grace. Returns what stops that. */
function startAging({ connection, calls }: Served, limits: GrpcLimits, random: () => number): () => void {
  const { maxConnectionAgeMs, maxConnectionAgeGraceMs } = limits
  if (maxConnectionAgeMs <= 0) return () => {}
  const ageMs = maxConnectionAgeMs * (1 - ageJitter + 2 * ageJitter * random())
  let timer = setTimeout(() => {
    connection.drain()
    if (maxConnectionAgeGraceMs > 0) timer = setTimeout(cut, maxConnectionAgeGraceMs)
  }, ageMs)

  function cut(): void {
    calls.cutAll(new GrpcError('UNAVAILABLE', 'the connection has reached its age'))
    connection.end()
  }

  return () => clearTimeout(timer)
}

function peerName({ remoteAddress, remotePort }: Socket): string {
  if (!remoteAddress) return 'unix'
  return `${remoteAddress.includes(':') ? `[${remoteAddress}]` : remoteAddress}:${remotePort}`
}
