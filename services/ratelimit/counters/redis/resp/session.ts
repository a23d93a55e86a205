import type { Socket } from 'node:net'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { type BusyPoll, type BusyPollMode, createBusyPoll } from '../../connections/busy-poll.ts'
import { connectSocket, type SocketOptions } from '../../connections/connect-socket.ts'
import { type OnReplies as OnRepliesOf, ReplyQueue } from '../../connections/reply-queue.ts'
import { lostText, type ServerSession, type SessionEvents } from '../../connections/server-connection.ts'
import { createStallWatch, type StallWatch } from '../../connections/stall-watch.ts'
import { createReplyParser, isArrayReply, isErrorReply, type Reply } from './reply-parser.ts'
import { RequestWriter, requestHead } from './request-writer.ts'

/** The address of a Redis, and the options of a session with it. */
export interface SessionOptions extends SocketOptions {
  readonly username?: string
  readonly password?: string
  /** The number of the database. Defaults to 0. */
  readonly database?: number
  /** Whether the event loop polls for replies that are expected early. */
  readonly busyPoll?: BusyPollMode
  /** Requires a master: the greeting includes ROLE, and a replica is rejected. */
  readonly masterOnly?: boolean
  /**
   * The session ends when it is not connected within this time, and when Redis owes replies and has sent
   * nothing for this time.
   */
  readonly timeoutMs: number
  /**
   * The time without a byte, while replies are owed, after which `onSilence` is called; never when left out.
   */
  readonly silenceMs?: number
  /** For the timeouts. Defaults to the system's clock. */
  readonly clock?: Clock
}

export type OnReplies = OnRepliesOf<Reply>

const lost = lostText('Redis')
const receiveBytes = 65_536

const owedText = (ms: number) => `Redis owed replies and sent nothing for ${ms} ms`

/** One connection to one Redis, from connect to close. It is independent of the requests. */
export class Session implements ServerSession {
  readonly closed: Promise<void>
  readonly #options: SessionOptions
  readonly #events: SessionEvents
  readonly #socket: Socket
  readonly #owed = new ReplyQueue<Reply>()
  readonly #greetingReplies: Reply[] = []
  readonly #watch: StallWatch
  readonly #busyPoll: BusyPoll
  #phase: 'connecting' | 'greeting' | 'serving' = 'connecting'
  #ended = false

  /**
   * Connects. The greeting contains only AUTH, SELECT and PING, unless the role matters, since proxies such
   * as twemproxy support no other commands. A server that is loading its data accepts connections and rejects
   * requests, so only a PONG proves that it serves.
   */
  constructor(options: SessionOptions, events: SessionEvents) {
    const { clock = systemClock } = options
    this.#options = options
    this.#events = events
    this.#busyPoll = createBusyPoll({ mode: options.busyPoll, clock, isOver: () => this.#owed.isEmpty })
    this.#watch = this.#createWatch(clock)
    this.#watch.begin()
    const parser = createReplyParser(reply => this.#onReply(reply))
    const { socket, closed } = connectSocket(options, receiveBytes, {
      onConnect: () => this.#greet(),
      onData: (bytes, chunk) => {
        if (this.#ended) return false
        this.#watch.progress()
        const problem = parser.push(chunk, bytes)
        if (problem !== undefined) this.end(`malformed reply from Redis: ${problem}`)
        return !this.#ended
      },
      onLost: text => this.#onLost(text),
    })
    this.#socket = socket
    this.closed = closed
  }

  /** Sends the written requests in one write, and clears the writer. No request is sent again. */
  send(requests: RequestWriter, onReplies: OnReplies, replies: Reply[] = []): void {
    const count = requests.requests
    if (this.#ended || count === 0) {
      requests.clear(true)
      onReplies(replies, this.#ended ? lost : undefined)
      return
    }
    const isLonely = this.#phase === 'serving' && this.#owed.isEmpty
    if (this.#owed.isEmpty) this.#watch.begin()
    this.#owed.owe(count, onReplies, replies)
    this.#socket.write(requests.bytes())
    // Usually the kernel has taken all bytes by now; otherwise the socket still reads that memory.
    requests.clear(this.#socket.writableLength === 0)
    if (isLonely) this.#busyPoll.begin(count)
  }

  end(problem: string): void {
    if (this.#ended) return
    this.#ended = true
    this.#watch.stop()
    this.#socket.destroy()
    // A server that rejects the greeting replies with the reason and then closes the connection.
    const refusal =
      this.#phase === 'serving' ? undefined : refusalIn(this.#greetingReplies, this.#options.password)
    this.#events.onEnd(refusal ?? problem)
    this.#owed.failAll(problem)
  }

  #createWatch(clock: Clock): StallWatch {
    const { timeoutMs, silenceMs = Number.POSITIVE_INFINITY } = this.#options
    const isConnected = () => this.#phase !== 'connecting'
    return createStallWatch({
      clock,
      silence: {
        afterMs: () => (this.#phase === 'serving' ? silenceMs : Number.POSITIVE_INFINITY),
        onBegin: afterMs => this.#events.onSilence(owedText(afterMs)),
        onEnd: () => this.#events.onSign(),
      },
      timeoutMs: () => timeoutMs,
      isWaiting: () => !this.#ended && !(isConnected() && this.#owed.isEmpty),
      onStall: () =>
        this.end(
          isConnected() ? owedText(timeoutMs) : `there was no connection to Redis after ${timeoutMs} ms`,
        ),
    })
  }

  #onReply(reply: Reply): void {
    if (this.#owed.take(reply)) return
    this.end(isErrorReply(reply) ? reply.error : 'Redis sent an unexpected reply')
  }

  #onLost(text: string | undefined): void {
    if (text === undefined) this.end(lost)
    else this.end(this.#phase === 'serving' ? `${lost}: ${text}` : text)
  }

  #greet(): void {
    this.#phase = 'greeting'
    const onGreeted: OnReplies = (replies, problem) => {
      if (problem === undefined) this.#onGreeted(replies)
    }
    this.send(writeGreeting(this.#options), onGreeted, this.#greetingReplies)
  }

  #onGreeted(replies: readonly Reply[]): void {
    const unfit = unfitness(replies, this.#options)
    if (unfit !== undefined) {
      this.end(unfit)
      return
    }
    this.#phase = 'serving'
    this.#watch.stop()
    this.#events.onServing()
  }
}

/** Uses a separate writer, so that the password does not stay in the buffer that is reused. */
function writeGreeting({ username, password, database = 0, masterOnly }: SessionOptions): RequestWriter {
  const requests = new RequestWriter()
  if (password !== undefined) {
    requests.begin(requestHead('AUTH', username === undefined ? 1 : 2))
    if (username !== undefined) requests.text(username)
    requests.text(password)
  }
  if (database !== 0) {
    requests.begin(requestHead('SELECT', 1))
    requests.integer(database)
  }
  requests.begin(requestHead('PING', 0))
  if (masterOnly) requests.begin(requestHead('ROLE', 0))
  return requests
}

/**
 * Returns why a session with this greeting cannot be used; an error in the replies takes precedence over this
 * text.
 */
function unfitness(replies: readonly Reply[], { password, masterOnly }: SessionOptions): string | undefined {
  const pong = replies.at(masterOnly ? -2 : -1)
  if (refusalIn(replies, password) !== undefined || pong !== 'PONG') {
    return 'the server is not Redis: the reply to PING is not PONG'
  }
  if (!masterOnly) return undefined
  const role = replies.at(-1)
  return isArrayReply(role) && role[0] === 'master' ? undefined : 'the server is a replica and not the master'
}

/**
 * Returns the first error, since later ones follow from it. A server that does not support AUTH quotes its
 * arguments, which may include a part of a long password.
 */
function refusalIn(replies: readonly Reply[], password = ''): string | undefined {
  const text = replies.find(isErrorReply)?.error.replace(/,? with args beginning with.*$/s, '')
  return password === '' ? text : text?.replaceAll(password, '***')
}
