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

/** Tests replace these settings. */
type SocketServerSettings = Pick<ConnectionContext, 'clock' | 'random' | 'keepaliveMs'>

const defaultSettings: SocketServerSettings = {
  clock: systemClock,
  random: Math.random,
  // A vanished peer is detected after two to three intervals.
  keepaliveMs: 9_000,
}

/** The time in which peers can receive the status of calls that a drain has aborted. */
const cutFlushMs = 500

/**
 * Implements `GrpcServer` with HTTP/2 over sockets: `http2/` has the connections with their streams and
 * frames, `calls/` runs the handlers.
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

/** Keeps the listeners of a server and their connections. */
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
     * Resolves when no connection is left. After the grace period the peers have `cutFlushMs` to take the
     * sent bytes.
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

/** @throws Error when a path occurs twice, a programming error */
function indexMethods(methods: readonly AnyMethod[]): ReadonlyMap<string, AnyMethod> {
  const index = new Map<string, AnyMethod>()
  for (const method of methods) {
    if (index.has(method.path)) throw new Error(`methods: ${method.path} occurs twice`)
    index.set(method.path, method)
  }
  return index
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
export function createDrain(
  health: HealthTable | undefined,
  server: Drainable,
): (graceMs: number) => Promise<void> {
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
