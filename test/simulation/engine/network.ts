import type { BidiCall, GrpcClient } from '@tollway/grpc/client/client.ts'
import type { AnyMethod, Call, Codec } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { SimulatedProcess, Simulation } from './simulation.ts'

/** The faults of one direction of a link. */
interface Faults {
  /** Nothing arrives. Connections keep what they send, as TCP does; single messages are lost. */
  isCut: boolean
  /** Added to the delay of each message. */
  slowMs: number
  /** The shares of single messages that are lost, and that arrive twice. */
  lossShare: number
  repeatShare: number
}

/** The delay of a message on a healthy link. */
const delayMs = { lowest: 0.2, highest: 3 }

/** The second copy of a repeated message comes up to this much later. */
const maxRepeatDelayMs = 8_000

/**
 * The links between processes. The delay and the loss of a message follow from the seed, the link and the
 * number of the message on that link, so that a run with fewer events stays alike.
 */
export class Network {
  readonly #simulation: Simulation
  readonly #faults = new Map<string, Faults>()
  readonly #counts = new Map<string, number>()
  readonly #connections = new Set<Connection>()
  readonly #servers = new Map<string, { readonly process: SimulatedProcess; readonly methods: MethodTable }>()

  constructor(simulation: Simulation) {
    this.#simulation = simulation
  }

  /** Returns the faults of a direction, which the caller may change. */
  faults(from: string, to: string): Faults {
    const key = `${from}>${to}`
    const found = this.#faults.get(key) ?? { isCut: false, slowMs: 0, lossShare: 0, repeatShare: 0 }
    this.#faults.set(key, found)
    return found
  }

  /** Cuts both directions between two processes until `heal`. */
  cut(one: string, other: string): void {
    this.faults(one, other).isCut = true
    this.faults(other, one).isCut = true
    this.#review()
  }

  heal(one: string, other: string): void {
    this.faults(one, other).isCut = false
    this.faults(other, one).isCut = false
    this.#review()
  }

  healAll(): void {
    this.#faults.clear()
    this.#review()
  }

  /** SIGSTOP. Peers lose the process after their keepalive. */
  pause(name: string): void {
    this.#simulation.find(name)?.pause()
    this.#review()
  }

  resume(name: string): void {
    this.#simulation.find(name)?.resume()
    this.#review()
  }

  /** Returns the delay of the next message on this link. */
  nextDelayMs(from: string, to: string): number {
    const { lowest, highest } = delayMs
    const share = this.#simulation.fraction('delay', from, to, this.#count(`delay ${from}>${to}`))
    const spread = lowest + (highest - lowest) * share * share
    return spread + this.faults(from, to).slowMs
  }

  /** Sends a single message, which may be lost or arrive twice. `deliver` runs in no process. */
  send(from: string, to: string, deliver: () => void): void {
    const { isCut, lossShare, repeatShare } = this.faults(from, to)
    const number = this.#count(`send ${from}>${to}`)
    const copies =
      isCut || this.#simulation.fraction('loss', from, to, number) < lossShare
        ? 0
        : this.#simulation.fraction('repeat', from, to, number) < repeatShare
          ? 2
          : 1
    for (let copy = 0; copy < copies; copy++) {
      const lateMs = copy * maxRepeatDelayMs * this.#simulation.fraction('late', from, to, number)
      this.#simulation.after(this.nextDelayMs(from, to) + lateMs, deliver)
    }
  }

  /** Serves streams at a name, until the process ends. */
  serve(process: SimulatedProcess, name: string, methods: readonly AnyMethod[]): void {
    const server = { process, methods: new Map(methods.map(method => [method.path, method])) }
    this.#servers.set(name, server)
    process.onEnd(() => {
      if (this.#servers.get(name) === server) this.#servers.delete(name)
    })
  }

  serves(name: string): boolean {
    return this.#servers.has(name)
  }

  /** Resets each connection between two processes, as a proxy does that restarts. */
  reset(one: string, other: string): void {
    for (const connection of this.#connections) {
      const names = [connection.client.process.name, connection.server.process.name]
      if (names.includes(one) && names.includes(other)) connection.reset()
    }
  }

  /**
   * Returns a client of one process. Each call is a connection of its own to the server that `resolve` names
   * then; undefined if there is none.
   *
   * @param keepaliveMs the time after which the client notices a silent server
   */
  client(process: SimulatedProcess, resolve: () => string | undefined, keepaliveMs: number): GrpcClient {
    let isClosed = false
    return {
      unary: () => Promise.reject(new GrpcError('UNIMPLEMENTED', 'the simulation has no unary calls')),
      bidi: <In, Out>(
        path: string,
        codec: Codec<Out, In>,
        { signal }: { signal?: AbortSignal | undefined } = {},
      ) => {
        const inbox = new Inbox<Out>()
        const name = isClosed ? undefined : resolve()
        const server = name === undefined ? undefined : this.#servers.get(name)
        const method = server?.methods.get(path)
        if (server === undefined || method === undefined) {
          const text = server === undefined ? 'connect: connection refused' : `${path} is not served`
          const error = new GrpcError(server === undefined ? 'UNAVAILABLE' : 'UNIMPLEMENTED', text)
          process.after(1, () => inbox.finish(error))
          return toCall<In, Out>(
            inbox,
            () => {},
            () => {},
          )
        }
        return this.#open<In, Out>(process, server.process, method, codec, { inbox, signal, keepaliveMs })
      },
      close() {
        isClosed = true
      },
    }
  }

  #open<In, Out>(
    from: SimulatedProcess,
    to: SimulatedProcess,
    method: AnyMethod,
    codec: Codec<Out, In>,
    how: {
      readonly inbox: Inbox<Out>
      readonly signal: AbortSignal | undefined
      readonly keepaliveMs: number
    },
  ): BidiCall<In, Out> {
    if (method.kind !== 'bidi') throw new Error(`${method.path} is not a method with two streams`)
    const { inbox, signal, keepaliveMs } = how
    const requests = new Inbox<unknown>()
    const abort = new AbortController()
    let handler: AsyncIterator<unknown> | undefined
    const connection: Connection = new Connection(this.#simulation, this, {
      client: { process: from, keepaliveMs, fail: error => inbox.fail(error) },
      server: {
        process: to,
        keepaliveMs: serverKeepaliveMs,
        fail(error) {
          abort.abort(error)
          requests.fail(error)
          void handler?.return?.()?.catch(() => {})
        },
      },
      onOver: () => this.#connections.delete(connection),
    })
    this.#connections.add(connection)
    connection.review()
    const toClient = (work: () => void) => connection.send('client', work)

    async function serve(): Promise<void> {
      const call: Call = {
        metadata: new Map(),
        peer: `${from.name}:1`,
        peerCertificate: undefined,
        deadlineMs: undefined,
        signal: abort.signal,
        sendHeaders() {},
        setTrailers() {},
      }
      try {
        handler = method.kind === 'bidi' ? method.handle(requests, call)[Symbol.asyncIterator]() : undefined
        for (
          let next = await handler?.next();
          next !== undefined && !next.done;
          next = await handler?.next()
        ) {
          const bytes = method.encode(next.value)
          toClient(() => inbox.put(codec.decode(bytes)))
        }
        toClient(() => connection.finish(() => inbox.finish()))
      } catch (error) {
        if (abort.signal.aborted) return
        if (!(error instanceof GrpcError)) throw error
        toClient(() => connection.finish(() => inbox.finish(error)))
      }
    }

    connection.send('server', () => void serve())
    const cancel = () => {
      inbox.fail(new GrpcError('CANCELLED', 'the call was cancelled'))
      connection.cancel()
    }
    signal?.addEventListener('abort', cancel)
    inbox.onLeave = () => {
      signal?.removeEventListener('abort', cancel)
      connection.cancel()
    }
    const write = (message: In) => {
      const bytes = codec.encode(message)
      connection.send('server', () => requests.put(method.decode(bytes)))
    }
    return toCall(inbox, write, () => connection.send('server', () => requests.finish()))
  }

  #review(): void {
    for (const connection of this.#connections) connection.review()
  }

  #count(key: string): number {
    const next = (this.#counts.get(key) ?? 0) + 1
    this.#counts.set(key, next)
    return next
  }
}

type MethodTable = ReadonlyMap<string, AnyMethod>

/** The time after which the server of the repository notices a silent client. */
const serverKeepaliveMs = 18_000

function toCall<In, Out>(
  inbox: Inbox<Out>,
  write: (message: In) => void,
  end: () => void,
): BidiCall<In, Out> {
  return {
    messages: inbox,
    headers: new Promise(() => {}),
    async write(message) {
      write(message)
    },
    end,
  }
}

interface End {
  readonly process: SimulatedProcess
  readonly keepaliveMs: number
  /** Called once, in the process of this end, when the connection is lost. */
  fail(error: GrpcError): void
}

type Side = 'client' | 'server'

/** One connection with one call. Each direction keeps the order of its messages. */
class Connection {
  readonly client: End
  readonly server: End
  readonly #simulation: Simulation
  readonly #network: Network
  readonly #onOver: () => void
  readonly #arrivalMs = { client: 0, server: 0 }
  /** The messages to each end that wait for a cut link. */
  readonly #held: Record<Side, (() => void)[]> = { client: [], server: [] }
  readonly #isOver = { client: false, server: false }
  #silentSinceMs: number | undefined
  #isEstablished = false

  constructor(
    simulation: Simulation,
    network: Network,
    { client, server, onOver }: { readonly client: End; readonly server: End; readonly onOver: () => void },
  ) {
    this.#simulation = simulation
    this.#network = network
    this.client = client
    this.server = server
    this.#onOver = onOver
    for (const side of ['client', 'server'] as const) {
      this[side].process.onEnd(() => {
        this.#end(side)
        this.#tellOther(side, 'UNAVAILABLE', `${this[side].process.name} has closed the connection`)
      })
    }
  }

  /** Runs the work at the other end, after the messages that were sent there before. */
  send(to: Side, work: () => void): void {
    if (this.#isOver[otherSide[to]]) return
    this.#transmit(to, () => {
      this.#isEstablished ||= to === 'server'
      // What a killed process has sent last gets lost: the feed does not tell the late answers of one life of a pod
      // from those of the next.
      if (!this.#isOver[to] && !this[otherSide[to]].process.hasEnded) work()
    })
  }

  /** The client leaves; the server notices after a message. */
  cancel(): void {
    if (this.#isOver.client) return
    this.#end('client')
    this.#tellOther('client', 'CANCELLED', 'the caller has cancelled')
  }

  /** The answer of the server has arrived at the client. */
  finish(work: () => void): void {
    work()
    this.#end('client')
    this.#end('server')
  }

  reset(): void {
    for (const side of ['client', 'server'] as const) {
      this.#failEnd(side, 'UNAVAILABLE', 'the connection was reset')
    }
  }

  /** To be called when a link or a process has changed: sends what waited, and watches a silent peer. */
  review(): void {
    const { client, server } = this
    for (const side of ['client', 'server'] as const) {
      for (const work of this.#held[side].splice(0)) this.#transmit(side, work)
    }
    const isCut = this.#isCut(client.process, server.process) || this.#isCut(server.process, client.process)
    if (!isCut && !client.process.isPaused && !server.process.isPaused) {
      this.#silentSinceMs = undefined
      return
    }
    if (this.#silentSinceMs !== undefined) return
    const sinceMs = this.#simulation.nowMs
    this.#silentSinceMs = sinceMs
    for (const side of ['client', 'server'] as const) {
      const { process, keepaliveMs } = this[side]
      const jitter = 0.8 + 0.4 * this.#simulation.fraction('keepalive', process.id, sinceMs)
      this.#simulation.after(keepaliveMs * jitter, () => {
        if (this.#silentSinceMs !== sinceMs || this.#isOver[side]) return
        this.#failEnd(side, 'UNAVAILABLE', 'keepalive: no answer to a ping')
        this.#tellOther(side, 'UNAVAILABLE', 'the connection was reset')
      })
    }
  }

  #isCut(from: SimulatedProcess, to: SimulatedProcess): boolean {
    return this.#network.faults(from.name, to.name).isCut
  }

  #transmit(to: Side, work: () => void): void {
    const target = this[to].process
    const from = this[otherSide[to]].process
    if (this.#isCut(from, target)) {
      this.#held[to].push(work)
      return
    }
    const { nowMs } = this.#simulation
    const atMs = Math.max(this.#arrivalMs[to], nowMs + this.#network.nextDelayMs(from.name, target.name))
    this.#arrivalMs[to] = atMs
    target.after(atMs - nowMs, work)
  }

  #tellOther(side: Side, status: 'UNAVAILABLE' | 'CANCELLED', text: string): void {
    const other = otherSide[side]
    if (this.#isOver[other]) return
    this.#transmit(other, () => this.#failEnd(other, status, text))
  }

  #failEnd(side: Side, status: 'UNAVAILABLE' | 'CANCELLED', text: string): void {
    if (this.#isOver[side]) return
    this.#end(side)
    const { process, fail } = this[side]
    process.soon(() => fail(new GrpcError(status, text)))
  }

  #end(side: Side): void {
    this.#isOver[side] = true
    // A client that gives up before its connection is established sends nothing.
    if (side === 'client' && !this.#isEstablished && this.#held.server.length > 0) {
      this.#held.server.length = 0
      this.#isOver.server = true
    }
    if (this.#isOver.client && this.#isOver.server) this.#onOver()
  }
}

const otherSide = { client: 'server', server: 'client' } as const

/** A queue of messages for one reader. */
export class Inbox<T> implements AsyncIterable<T> {
  readonly #items: T[] = []
  #ended: { readonly error: Error | undefined } | undefined
  #wake: () => void = () => {}
  onLeave: () => void = () => {}

  put(item: T): void {
    if (this.#ended !== undefined) return
    this.#items.push(item)
    this.#wake()
  }

  /** Ends the messages after those that wait. */
  finish(error?: Error): void {
    this.#ended ??= { error }
    this.#wake()
  }

  /** Drops the messages that wait, and ends. */
  fail(error: Error): void {
    if (this.#ended === undefined) this.#items.length = 0
    this.finish(error)
  }

  async *[Symbol.asyncIterator](): AsyncGenerator<T> {
    try {
      for (;;) {
        const item = this.#items.shift()
        if (item !== undefined) yield item
        else if (this.#ended?.error) throw this.#ended.error
        else if (this.#ended) return
        else {
          await new Promise<void>(resolve => {
            this.#wake = resolve
          })
        }
      }
    } finally {
      this.onLeave()
    }
  }
}
