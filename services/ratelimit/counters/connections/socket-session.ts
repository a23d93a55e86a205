import type { Socket } from 'node:net'
import type { Clock } from '@tollway/chassis/clock.ts'
import { type BusyPollMode, createBusyPoll } from './busy-poll.ts'
import { connectSocket, type SocketOptions } from './connect-socket.ts'
import { describeLoss, type ServerSession, type SessionEvents } from './server-connection.ts'

/** What a session needs to know of the protocol of one kind of server, Redis or memcached. */
export interface ServerProtocol<Reply> {
  /** `Redis` or `memcached`, for messages. */
  readonly server: string
  readonly receiveBytes: number
  /**
   * Whether the greeting has a time limit of its own, which received bytes restart. Otherwise it shares the
   * limit of connecting.
   */
  readonly timesGreeting: boolean
  /** The parser's `push` returns a description of malformed bytes, or undefined. */
  createParser(onReply: (reply: Reply) => void): {
    push(chunk: Buffer, length: number): string | undefined
  }
  errorOf(reply: Reply): string | undefined
  /** Returns whether, after this reply, later replies can no longer be matched with their requests. */
  isOutOfStep(reply: Reply): boolean
  /** Returns the message for a session that did not serve in time. */
  notServing(isConnected: boolean, timeoutMs: number): string
}

export interface SocketSessionOptions extends SocketOptions {
  /** The session ends when it does not serve within this time. */
  readonly connectTimeoutMs: number
  /** The session ends when replies are due and the server has sent nothing for this time. */
  readonly stallTimeoutMs: number
  /** `onSilence` is called when replies are due and the server has sent nothing for this time. */
  readonly silenceMs: number
  readonly clock: Clock
  readonly busyPoll?: BusyPollMode | undefined
}

/** One connection to one server; subclasses encode the requests and greet the server. */
export abstract class SocketSession<Reply> implements ServerSession {
  readonly closed: Promise<void>
  readonly #protocol: ServerProtocol<Reply>
  readonly #events: SessionEvents
  readonly #socket: Socket
  readonly #owed = new ReplyQueue<Reply>()
  readonly #watch: StallWatch
  readonly #poll: (requests: number) => void
  readonly #lost: string
  #phase: 'connecting' | 'greeting' | 'serving' = 'connecting'
  #ended = false

  /** Starts to connect; `events` reports the outcome. */
  constructor(protocol: ServerProtocol<Reply>, options: SocketSessionOptions, events: SessionEvents) {
    const { clock, busyPoll: mode } = options
    this.#protocol = protocol
    this.#events = events
    this.#lost = describeLoss(protocol.server)
    this.#poll = createBusyPoll({ mode, clock, isOver: () => this.#owed.isEmpty })
    this.#watch = this.#createWatch(options)
    this.#watch.begin()
    const parser = protocol.createParser(reply => this.#onReply(reply))
    const { socket, closed } = connectSocket(options, protocol.receiveBytes, {
      onConnect: () => {
        this.#phase = 'greeting'
        this.greet()
      },
      onData: (bytes, chunk) => {
        if (this.#ended) return false
        if (this.isServing || protocol.timesGreeting) this.#watch.progress()
        const problem = parser.push(chunk, bytes)
        if (problem !== undefined) this.end(`malformed reply from ${protocol.server}: ${problem}`)
        return !this.#ended
      },
      onLost: text => this.#onLost(text),
    })
    this.#socket = socket
    this.closed = closed
  }

  end(problem: string): void {
    if (this.#ended) return
    this.#ended = true
    this.#watch.stop()
    this.#socket.destroy()
    this.#events.onEnd(this.rejection() ?? problem)
    this.#owed.failAll(problem)
  }

  /** Takes a reply that answers no request. Returns false if the protocol has no such replies. */
  protected takePush(_reply: Reply): boolean {
    return false
  }

  /** Sends the requests whose replies prove that the server serves. A reply leads to `serve` or `end`. */
  protected abstract greet(): void

  /**
   * Returns the error with which the server rejected the greeting; `end` reports it instead of its own
   * reason.
   */
  protected rejection(): string | undefined {
    return undefined
  }

  protected get isServing(): boolean {
    return this.#phase === 'serving'
  }

  /** Why nothing can be sent: the session has ended. Undefined while it lasts. */
  protected get ending(): string | undefined {
    return this.#ended ? this.#lost : undefined
  }

  /**
   * Sends `count` requests in one write; no request is sent again. Returns whether the kernel has taken all
   * bytes. If not, the socket still reads the memory of `requests`, which must not be changed.
   *
   * @param replies the array that collects the replies
   */
  protected write(
    requests: string | Uint8Array,
    count: number,
    onReplies: OnReplies<Reply>,
    replies?: Reply[],
  ): boolean {
    const isLonely = this.isServing && this.#owed.isEmpty
    if (isLonely || (this.#protocol.timesGreeting && this.#owed.isEmpty)) this.#watch.begin()
    this.#owed.expect(count, onReplies, replies)
    this.#socket.write(requests)
    if (isLonely) this.#poll(count)
    return this.#socket.writableLength === 0
  }

  protected serve(): void {
    this.#phase = 'serving'
    this.#watch.stop()
    this.#events.onServing()
  }

  #createWatch({ clock, connectTimeoutMs, stallTimeoutMs, silenceMs }: SocketSessionOptions): StallWatch {
    const { server, notServing } = this.#protocol
    const owedText = (ms: number) => `${server} owed replies and sent nothing for ${ms} ms`
    const isConnected = () => this.#phase !== 'connecting'
    return new StallWatch({
      clock,
      silenceMs: () => (this.isServing ? silenceMs : Number.POSITIVE_INFINITY),
      onSilence: ms => this.#events.onSilence(owedText(ms)),
      onResume: () => this.#events.onResume(),
      timeoutMs: () => (this.isServing ? stallTimeoutMs : connectTimeoutMs),
      isWaiting: () => !this.#ended && !(isConnected() && this.#owed.isEmpty),
      onStall: ms => this.end(this.isServing ? owedText(ms) : notServing(isConnected(), ms)),
    })
  }

  #onReply(reply: Reply): void {
    if (this.#ended) return
    const { server, isOutOfStep, errorOf } = this.#protocol
    if (!isOutOfStep(reply) && (this.#owed.take(reply) || this.takePush(reply))) return
    this.end(errorOf(reply) ?? `${server} sent an unexpected reply`)
  }

  #onLost(text: string | undefined): void {
    if (text === undefined) this.end(this.#lost)
    else this.end(this.isServing ? `${this.#lost}: ${text}` : text)
  }
}

/**
 * Called once, with the replies in the order of the requests. If the session ended before all replies
 * arrived, the replies of the last requests are missing, and `problem` is the reason.
 */
export type OnReplies<Reply> = (replies: readonly Reply[], problem: string | undefined) => void

/** The requests of one write that still lack a reply, with the replies that have arrived. */
interface PendingReplies<Reply> {
  readonly requests: number
  readonly replies: Reply[]
  readonly onReplies: OnReplies<Reply>
}

/** The writes that await replies, for a protocol that replies in the order of the requests. */
class ReplyQueue<Reply> {
  readonly #debts: PendingReplies<Reply>[] = []

  get isEmpty(): boolean {
    return this.#debts.length === 0
  }

  /**
   * Records a write of at least one request: a write of none would take the reply of the next write.
   *
   * @param replies the array that collects the replies
   */
  expect(requests: number, onReplies: OnReplies<Reply>, replies: Reply[] = []): void {
    this.#debts.push({ requests, replies, onReplies })
  }

  /** Adds the next reply; returns false when no request waits for one. */
  take(reply: Reply): boolean {
    const debt = this.#debts[0]
    if (debt === undefined) return false
    debt.replies.push(reply)
    if (debt.replies.length < debt.requests) return true
    this.#debts.shift()
    debt.onReplies(debt.replies, undefined)
    return true
  }

  /** Calls back for all writes with the replies that have arrived and the problem: no more will arrive. */
  failAll(problem: string): void {
    for (const { replies, onReplies } of this.#debts.splice(0)) onReplies(replies, problem)
  }
}

interface StallWatchOptions {
  readonly clock: Clock
  readonly isWaiting: () => boolean
  /** The time without progress after which `onSilence` is called; read at each check. */
  readonly silenceMs: () => number
  readonly onSilence: (silenceMs: number) => void
  readonly onResume: () => void
  /** The longest time without progress; read at each check. */
  readonly timeoutMs: () => number
  readonly onStall: (timeoutMs: number) => void
}

/** Detects that a server from which replies are due makes no progress. One timer watches all due replies. */
class StallWatch {
  readonly #options: StallWatchOptions
  #progressMs: number
  #timer: NodeJS.Timeout | undefined
  #silent = false

  constructor(options: StallWatchOptions) {
    this.#options = options
    this.#progressMs = options.clock.monotonicMs()
  }

  /** Called when a reply becomes due and no other reply is due. */
  begin(): void {
    this.#progressMs = this.#options.clock.monotonicMs()
    if (this.#timer === undefined) this.#plan(0)
  }

  /** Called for every arrival of bytes. */
  progress(): void {
    this.#progressMs = this.#options.clock.monotonicMs()
    if (!this.#silent) return
    this.#silent = false
    this.stop()
    this.#plan(0)
    this.#options.onResume()
  }

  stop(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #plan(quietMs: number): void {
    const { silenceMs, timeoutMs } = this.#options
    const nextMs = this.#silent ? timeoutMs() : Math.min(silenceMs(), timeoutMs())
    // Before the check the event loop reads what has arrived: the loop, not the server, may have been late.
    this.#timer = setTimeout(() => setImmediate(() => this.#check()), nextMs - quietMs)
  }

  #check(): void {
    const { clock, isWaiting, silenceMs, onSilence, timeoutMs, onStall } = this.#options
    this.#timer = undefined
    if (!isWaiting()) return
    const quietMs = clock.monotonicMs() - this.#progressMs
    const stallMs = timeoutMs()
    if (quietMs >= stallMs) {
      onStall(stallMs)
      return
    }
    const silentAfterMs = silenceMs()
    if (!this.#silent && quietMs >= silentAfterMs) {
      this.#silent = true
      onSilence(silentAfterMs)
    }
    this.#plan(quietMs)
  }
}
