import type { Socket } from 'node:net'
import { systemClock } from '@tollway/chassis/clock.ts'
import { MemoryBudget } from '@tollway/chassis/memory-budget.ts'
import { CallTotals } from '../calls/call-context.ts'
import {
  type AnyMethod,
  type BoundAddress,
  defaultLimits,
  type GrpcServer,
  type GrpcServerOptions,
  type ListenAddress,
} from '../server.ts'
import { GrpcError } from '../status.ts'
import { type HealthTable, healthMethods } from './health.ts'
import { type Listener, openListener } from './listener.ts'
import { peerName } from './peer-name.ts'
import { type ConnectionContext, type ServedConnection, serveConnection } from './serve-connection.ts'

/** The settings that tests replace. */
export type SocketServerSettings = Pick<ConnectionContext, 'clock' | 'random' | 'keepaliveMs'>

const defaultSettings: SocketServerSettings = {
  clock: systemClock,
  random: Math.random,
  // A vanished peer is detected after two to three intervals: in less than half a minute.
  keepaliveMs: 9_000,
}

/** The time that peers have to receive the status of calls that were aborted at the end of a drain. */
const cutFlushMs = 500

/**
 * Creates a gRPC server, which implements the contract `GrpcServer` with HTTP/2 over sockets: `http2/` has
 * the connections with their streams and frames, and `calls/` runs the handlers on the streams.
 */
export function createGrpcServer(
  options: GrpcServerOptions,
  settings: Partial<SocketServerSettings> = {},
): GrpcServer {
  const { health, onHealthCheck, onDefect, memory = new MemoryBudget() } = options
  const ofHealth = health ? healthMethods(health, onHealthCheck) : []
  const totals = new CallTotals()
  const connections = createConnections({
    methods: indexMethods([...options.methods, ...ofHealth]),
    limits: { ...defaultLimits, ...options.limits },
    onDefect,
    totals,
    memory,
    ...defaultSettings,
    ...settings,
  })

  return {
    listen: connections.listen,
    drain: createDrain(health, { ...connections, onlyWatchesLeft: () => totals.onlyWatchesLeft() }),
    get activeCalls() {
      return totals.size
    },
  }
}

/** Creates the keeper of a server's listeners and of their connections. */
function createConnections(context: ConnectionContext) {
  const listeners = new Set<Listener>()
  const open = new Set<ServedConnection>()
  const { promise: allClosed, resolve: onAllClosed } = Promise.withResolvers<void>()
  let isClosing = false

  function accept(socket: Socket): void {
    if (isClosing) {
      socket.destroy()
      return
    }
    const served = serveConnection(socket, peerName(socket), context, () => {
      open.delete(served)
      if (isClosing && open.size === 0) onAllClosed()
    })
    open.add(served)
  }

  return {
    async listen(address: ListenAddress): Promise<BoundAddress> {
      if (isClosing) throw new Error('listen: the server is shut down')
      const listener = await openListener(address, context.limits, accept)
      listeners.add(listener)
      if (isClosing) listener.close()
      return listener.bound
    },
    stopAccepting(): void {
      isClosing = true
      for (const listener of listeners) listener.close()
      for (const { connection } of [...open]) connection.drain()
      if (open.size === 0) onAllClosed()
    },
    cutCalls(error: GrpcError): void {
      for (const { calls } of open) calls.cutAll(error)
    },
    /**
     * Resolves when no connection is left. After the grace period the remaining peers have `cutFlushMs` to
     * take the sent bytes; then their connections are destroyed.
     */
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

/** Returns the methods by their paths. Throws when a path occurs twice, which is a programming error. */
export function indexMethods(methods: readonly AnyMethod[]): ReadonlyMap<string, AnyMethod> {
  const index = new Map<string, AnyMethod>()
  for (const method of methods) {
    if (index.has(method.path)) throw new Error(`methods: ${method.path} occurs twice`)
    index.set(method.path, method)
  }
  return index
}

/** The operations of a server that a drain needs. */
interface Drainable {
  /** Accepts no more connections, and sends GOAWAY to every peer, so that they begin no more calls. */
  stopAccepting(): void
  /** Resolves when no calls run except health watches, which do not end by themselves. */
  onlyWatchesLeft(): Promise<void>
  cutCalls(error: GrpcError): void
  /**
   * Resolves when no connection is left. Connections that are left at the end of the grace period are closed.
   */
  closed(graceOver: Promise<void>): Promise<void>
}

/** Creates the method `drain` of a server, as `GrpcServer` documents it. */
export function createDrain(
  health: HealthTable | undefined,
  server: Drainable,
): (graceMs: number) => Promise<void> {
  const { promise: graceOver, resolve: endGrace } = Promise.withResolvers<void>()
  let drained: Promise<void> | undefined

  async function drain(): Promise<void> {
    health?.drain()
    // Waits for a turn of the event loop: in it, each Watch sends NOT_SERVING, before GOAWAY is sent.
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
