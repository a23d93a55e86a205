import type { Socket } from 'node:net'
import type { Clock } from '@tollway/chassis/clock.ts'
import { type BusyPoll, type BusyPollMode, createBusyPoll } from '../../connections/busy-poll.ts'
import { connectSocket, type SocketOptions } from '../../connections/connect-socket.ts'
import { type OnReplies as OnRepliesOf, ReplyQueue } from '../../connections/reply-queue.ts'
import { lostText, type ServerSession, type SessionEvents } from '../../connections/server-connection.ts'
import { createStallWatch, type StallWatch } from '../../connections/stall-watch.ts'
import { isErrorReply, isValueReply, type Reply, ReplyParser } from './reply-parser.ts'

export interface SessionOptions extends SocketOptions {
  /** The session ends when memcached has not answered for the first time within this time, */
  readonly connectTimeoutMs: number
  /** and when it owes replies and has sent nothing for this time. */
  readonly stallTimeoutMs: number
  /** The time without a byte, while replies are owed, after which `onSilence` is called. */
  readonly silenceMs: number
  readonly clock: Clock
  /** Whether the event loop polls for replies that are expected early. */
  readonly busyPoll?: BusyPollMode
}

export type OnReplies = OnRepliesOf<Reply>

const lost = lostText('memcached')
const receiveBytes = 16_384

/** A request that every server and proxy supports, and that changes nothing. */
const greeting = 'get tollway_probe\r\n'

const owedText = (ms: number) => `memcached owed replies and sent nothing for ${ms} ms`

/** One connection to one memcached, from connect to close. */
export class Session implements ServerSession {
  readonly closed: Promise<void>
  readonly #options: SessionOptions
  readonly #events: SessionEvents
  readonly #socket: Socket
  readonly #owed = new ReplyQueue<Reply>()
  readonly #watch: StallWatch
  readonly #busyPoll: BusyPoll
  #serving = false
  #ended = false

  /** Connects, and reads a key: an open port does not prove that memcached serves. */
  constructor(options: SessionOptions, events: SessionEvents) {
    this.#options = options
    this.#events = events
    this.#busyPoll = createBusyPoll({
      mode: options.busyPoll,
      clock: options.clock,
      isOver: () => this.#owed.isEmpty,
    })
    this.#watch = this.#createWatch()
    this.#watch.begin()
    const parser = new ReplyParser(reply => this.#onReply(reply))
    const { socket, closed } = connectSocket(options, receiveBytes, {
      onConnect: () => this.send(greeting, 1, ([reply], problem) => this.#onGreeted(reply, problem)),
      onData: (bytes, chunk) => {
        if (this.#ended) return false
        if (this.#serving) this.#watch.progress()
        const problem = parser.push(chunk, bytes)
        if (problem !== undefined) this.end(`malformed reply from memcached: ${problem}`)
        return !this.#ended
      },
      onLost: text => this.#onLost(text),
    })
    this.#socket = socket
    this.closed = closed
  }

  /** Sends `count` requests in one write. No request is sent again. */
  send(requests: string, count: number, onReplies: OnReplies): void {
    if (this.#ended || count === 0) {
      onReplies([], this.#ended ? lost : undefined)
      return
    }
    const isLonely = this.#serving && this.#owed.isEmpty
    if (isLonely) this.#watch.begin()
    this.#owed.owe(count, onReplies)
    this.#socket.write(requests)
    if (isLonely) this.#busyPoll.begin(count)
  }

  end(problem: string): void {
    if (this.#ended) return
    this.#ended = true
    this.#watch.stop()
    this.#socket.destroy()
    this.#events.onEnd(problem)
    this.#owed.failAll(problem)
  }

  #createWatch(): StallWatch {
    const { clock, connectTimeoutMs, stallTimeoutMs, silenceMs } = this.#options
    return createStallWatch({
      clock,
      silence: {
        afterMs: () => (this.#serving ? silenceMs : Number.POSITIVE_INFINITY),
        onBegin: afterMs => this.#events.onSilence(owedText(afterMs)),
        onEnd: () => this.#events.onSign(),
      },
      timeoutMs: () => (this.#serving ? stallTimeoutMs : connectTimeoutMs),
      isWaiting: () => !this.#ended && !(this.#serving && this.#owed.isEmpty),
      onStall: timeoutMs =>
        this.end(
          this.#serving
            ? owedText(timeoutMs)
            : `memcached did not answer for the first time within ${timeoutMs} ms`,
        ),
    })
  }

  #onReply(reply: Reply): void {
    if (this.#ended) return
    if (!isOutOfStep(reply) && this.#owed.take(reply)) return
    this.end(isErrorReply(reply) ? reply.error : 'memcached sent an unexpected reply')
  }

  #onLost(text: string | undefined): void {
    if (text === undefined) this.end(lost)
    else this.end(this.#serving ? `${lost}: ${text}` : text)
  }

  #onGreeted(reply: Reply | undefined, problem: string | undefined): void {
    if (problem !== undefined) return
    if (isErrorReply(reply)) this.end(reply.error)
    else if (!isValueReply(reply)) this.end('the server is not memcached')
    else {
      this.#serving = true
      this.#watch.stop()
      this.#events.onServing()
    }
  }
}

/**
 * Returns whether the error means that memcached parsed the requests differently than they were written:
 * later replies cannot be assigned then. Other errors are about one key, or about the server's memory.
 */
function isOutOfStep(reply: Reply): boolean {
  return isErrorReply(reply) && /^(ERROR|CLIENT_ERROR (?!cannot increment))/.test(reply.error)
}
