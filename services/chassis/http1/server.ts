import { createServer, type Server, type Socket } from 'node:net'
import { type Clock, systemClock } from '../clock.ts'
import { RequestMemory } from '../request-memory.ts'
import type { Http1Answer } from './answer.ts'
import { Connection, type ConnectionContext } from './connection.ts'
import { createDateLine } from './date-line.ts'
import { defaultHttp1Limits, type Http1Limits } from './limits.ts'
import type { Http1Request } from './request.ts'

export interface Http1ServerOptions {
  /**
   * Answers a request, at once or by a promise; many run at the same time, also of one connection, whose
   * answers go out in the order of its requests. What it throws is a defect, and is answered with 500.
   */
  handle(request: Http1Request): Http1Answer | Promise<Http1Answer>
  /** Told of every defect, with the path of its request; the server goes on. */
  onDefect(path: string, error: unknown): void
  /** Whether the process is about to end: callers then get each answer with the end of their connection. */
  closing?(): boolean
  /** The answer to a request whose body is too long; 413 when left out. */
  readonly bodyTooLong?: Http1Answer
  readonly limits?: Partial<Http1Limits>
  /**
   * What unfinished requests may hold, shared with other servers of the process; those beyond it get 503. A server
   * that is given none has the default for itself.
   */
  readonly memory?: RequestMemory
  /** For the Date header; the system's when left out. */
  readonly clock?: Clock
}

export interface Http1Address {
  readonly host: string
  /** 0 is a free one. */
  readonly port: number
  /** Other processes may bind the same port, and the kernel spreads connections over all of them. */
  readonly reusePort?: boolean
}

export interface Http1Server {
  /** Returns the bound port. Rejects with a system error, such as `EADDRINUSE`. */
  listen(address: Http1Address): Promise<number>
  /**
   * Takes no more connections, and closes those without a request: at once, or, for one that was in use a
   * moment ago, a moment later, as its next request may be on its way. What runs is answered, with
   * `Connection: close`; what is left after the grace is cut. Resolves when no connection is left.
   */
  drain(graceMs: number): Promise<void>
  /** Open connections. */
  readonly connections: number
}

/** How often all connections are looked at. Their timeouts are as coarse as this. */
const sweepMs = 1000
const drainSweepMs = 50
/** A connection that has been without a request for so long is closed in a drain. */
const drainIdleMs = 200

/** Serves HTTP/1.1 and HTTP/1.0 (RFC 9112) over sockets, without TLS. `everyMs` is for tests. */
export function createHttp1Server(options: Http1ServerOptions, everyMs: number = sweepMs): Http1Server {
  const limits = { ...defaultHttp1Limits, ...options.limits }
  const listeners = new Set<Server>()
  const open = new Set<Connection>()
  const { promise: allClosed, resolve: onAllClosed } = Promise.withResolvers<void>()
  const { promise: graceOver, resolve: endGrace } = Promise.withResolvers<void>()
  const sweeper = createSweeper(open)
  let draining = false
  let drained: Promise<void> | undefined

  const context: ConnectionContext = {
    limits,
    memory: options.memory ?? new RequestMemory(),
    handle: options.handle,
    bodyTooLong: options.bodyTooLong,
    onDefect: options.onDefect,
    closing: () => draining || options.closing?.() === true,
    dateLine: createDateLine(options.clock ?? systemClock),
    sweptMs: sweeper.sweptMs,
  }

  function accept(socket: Socket): void {
    if (draining || open.size >= limits.maxConnections) {
      socket.destroy()
      return
    }
    open.add(new Connection(socket, context, onClosed))
    if (open.size === 1) sweeper.start(everyMs, limits.idleTimeoutMs)
  }

  function onClosed(connection: Connection): void {
    open.delete(connection)
    if (open.size > 0) return
    sweeper.stop()
    if (draining) onAllClosed()
  }

  async function drain(): Promise<void> {
    draining = true
    for (const listener of listeners) listener.close()
    sweeper.sweep(0, drainIdleMs)
    sweeper.start(drainSweepMs, drainIdleMs)
    if (open.size === 0) onAllClosed()
    await Promise.race([allClosed, graceOver])
    for (const connection of open) connection.destroy()
    await allClosed
    sweeper.stop()
  }

  return {
    async listen(address) {
      if (draining) throw new Error('listen: the server is shut down')
      const listener = await bind(address, accept)
      listeners.add(listener)
      if (draining) listener.close()
      return portOf(listener)
    },
    drain(graceMs) {
      const timer = setTimeout(endGrace, graceMs)
      drained ??= drain()
      return drained.finally(() => clearTimeout(timer))
    },
    get connections() {
      return open.size
    },
  }
}

function bind({ host, port, reusePort = false }: Http1Address, accept: (socket: Socket) => void) {
  return new Promise<Server>((resolve, reject) => {
    const server = createServer({ allowHalfOpen: true, noDelay: true }, accept)
    server.once('error', reject)
    server.listen({ host, port, reusePort }, () => {
      server.off('error', reject)
      // A failed accept, as of EMFILE, costs that one connection; the server goes on.
      server.on('error', () => {})
      resolve(server)
    })
  })
}

function portOf(server: Server): number {
  const address = server.address()
  return typeof address === 'object' && address !== null ? address.port : 0
}

/**
 * One timer for all connections. It counts its own turns rather than ask a clock: the time in which the event
 * loop stood still is not held against clients whose octets have been waiting to be read.
 */
function createSweeper(connections: ReadonlySet<Connection>) {
  let sweptMs = 0
  let timer: NodeJS.Timeout | undefined

  function sweep(passedMs: number, idleTimeoutMs: number): void {
    sweptMs += passedMs
    for (const connection of connections) connection.sweep(sweptMs, idleTimeoutMs)
  }

  function stop(): void {
    clearInterval(timer)
  }

  return {
    sweptMs: () => sweptMs,
    sweep,
    start(everyMs: number, idleTimeoutMs: number): void {
      stop()
      timer = setInterval(sweep, everyMs, everyMs, idleTimeoutMs)
      timer.unref()
    },
    stop,
  }
}
