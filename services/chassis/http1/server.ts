import { createServer, type Server, type Socket } from 'node:net'
import { type Clock, systemClock } from '../clock.ts'
import { RequestMemory } from '../request-memory.ts'
import type { Http1Answer } from './answer.ts'
import { Connection, type ConnectionContext } from './connection.ts'
import { createDateLine } from './date-line.ts'
import { defaultHttp1Limits, type Http1Limits } from './limits.ts'
import type { Http1Request } from './requests/request.ts'

export interface Http1ServerOptions {
  /**
   * Answers a request, synchronously or by a promise. Requests run concurrently, also those of one
   * connection, whose answers are sent in the order of its requests. An exception is an internal error, and
   * is answered with 500.
   */
  handle(request: Http1Request): Http1Answer | Promise<Http1Answer>
  /** Called for every internal error, with the path of its request; the server continues. */
  onDefect(path: string, error: unknown): void
  /** Returns whether the process is shutting down: each answer then closes its connection. */
  closing?(): boolean
  /** The answer to a request whose body is too long. Defaults to 413. */
  readonly bodyTooLong?: Http1Answer
  readonly limits?: Partial<Http1Limits>
  /**
   * Limits the memory of unfinished requests, shared with other servers of the process; requests beyond it
   * get 503. Without it the server has the default limit for itself.
   */
  readonly memory?: RequestMemory
  /** The clock of the Date header. Defaults to the system's clock. */
  readonly clock?: Clock
}

export interface Http1Address {
  readonly host: string
  /** 0 selects a free port. */
  readonly port: number
  /** Other processes may bind the same port; the kernel distributes connections among all of them. */
  readonly reusePort?: boolean
}

export interface Http1Server {
  /** Returns the bound port. Rejects with a system error, such as `EADDRINUSE`. */
  listen(address: Http1Address): Promise<number>
  /**
   * Accepts no more connections, and closes those without a request: at once or, if a connection was in use a
   * moment ago, a moment later, since its next request may be in transit. Running requests are answered with
   * `Connection: close`; the remaining ones are aborted after the grace period. Resolves when no connection
   * is left.
   */
  drain(graceMs: number): Promise<void>
  /** The number of open connections. */
  readonly connections: number
}

/** The interval in which all connections are checked, which is the resolution of their timeouts. */
const sweepMs = 1000
const drainSweepMs = 50
/** A drain closes connections that have been without a request for this time. */
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
      // A failed accept, such as EMFILE, affects only that connection.
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
 * One timer for all connections. It counts its turns and reads no clock: time in which the event loop was
 * blocked does not count against clients whose octets were waiting to be read.
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
