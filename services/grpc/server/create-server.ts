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
type SocketServerSettings = Pick<ConnectionContext, 'clock' | 'random' | 'keepaliveMs'>

const defaultSettings: SocketServerSettings = {
  clock: systemClock,
  random: Math.random,
  // A peer that has vanished is detected after two to three intervals.
  keepaliveMs: 9_000,
}

/** The time in which peers can receive the status of calls that a drain has aborted. */
const cutFlushMs = 500

/**
 * Creates a server with HTTP/2 over sockets: `http2/` has the connections with their streams and frames,
 * `calls/` runs the handlers.
 */
export function createGrpcServer(
  options: GrpcServerOptions,
  settings: Partial<SocketServerSettings> = {},
): GrpcServer {
  const { health, onHealthCheck, onDefect, memory = new MemoryBudget() } = options
  const ofHealth = health ? healthMethods(health, onHealthCheck) : []
  const context: ConnectionContext = {
    methods: indexMethods([...options.methods, ...ofHealth]),
    limits: { ...defaultLimits, ...options.limits },
    onDefect,
    totals: new CallTotals(),
    memory,
    ...defaultSettings,
    ...settings,
  }
  return new SocketServer(context, health)
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

class SocketServer implements GrpcServer {
  readonly #context: ConnectionContext
  readonly #health: HealthTable | undefined
  readonly #listeners = new Set<Listener>()
  readonly #open = new Set<ServedConnection>()
  readonly #allClosed = Promise.withResolvers<void>()
  readonly #graceOver = Promise.withResolvers<void>()
  #drained: Promise<void> | undefined
  #isClosing = false

  constructor(context: ConnectionContext, health: HealthTable | undefined) {
    this.#context = context
    this.#health = health
  }

  get activeCalls(): number {
    return this.#context.totals.size
  }

  async listen(address: ListenAddress): Promise<BoundAddress> {
    if (this.#isClosing) throw new Error('listen: the server is shut down')
    const listener = await openListener(address, this.#context.limits, socket => this.#accept(socket))
    this.#listeners.add(listener)
    if (this.#isClosing) listener.close()
    return listener.bound
  }

  async drain(graceMs: number): Promise<void> {
    const timer = setTimeout(this.#graceOver.resolve, graceMs)
    this.#drained ??= this.#drain()
    await this.#drained.finally(() => clearTimeout(timer))
  }

  async #drain(): Promise<void> {
    this.#health?.drain()
    // In this turn, each Watch sends NOT_SERVING, before GOAWAY is sent.
    await new Promise(resolve => setImmediate(resolve))
    this.#stopAccepting()
    await Promise.race([this.#context.totals.onlyWatchesLeft(), this.#graceOver.promise])
    const error = new GrpcError('UNAVAILABLE', 'the server is shutting down')
    for (const { calls } of this.#open) calls.cutAll(error)
    await Promise.race([this.#allClosed.promise, this.#graceOver.promise])
    await this.#closeRest()
  }

  #accept(socket: Socket): void {
    if (this.#isClosing) {
      socket.destroy()
      return
    }
    const served = serveConnection(socket, peerName(socket), this.#context, () => {
      this.#open.delete(served)
      this.#resolveIfClosed()
    })
    this.#open.add(served)
  }

  /** Closes the listeners, and sends GOAWAY, so that peers begin no more calls. */
  #stopAccepting(): void {
    this.#isClosing = true
    for (const listener of this.#listeners) listener.close()
    for (const { connection } of [...this.#open]) connection.drain()
    this.#resolveIfClosed()
  }

  #resolveIfClosed(): void {
    if (this.#isClosing && this.#open.size === 0) this.#allClosed.resolve()
  }

  /** Ends the connections, whose peers then have `cutFlushMs` to take the sent bytes. */
  async #closeRest(): Promise<void> {
    const { promise: allClosed } = this.#allClosed
    for (const { connection } of [...this.#open]) connection.end()
    const flushed = Promise.withResolvers<void>()
    const timer = setTimeout(flushed.resolve, cutFlushMs)
    await Promise.race([allClosed, flushed.promise])
    clearTimeout(timer)
    for (const { connection } of this.#open) connection.destroy()
    await allClosed
  }
}
