import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { type BusyPollMode, createBusyPoll } from '../../connections/busy-poll.ts'
import {
  connectSocket,
  type Endpoint,
  networkText,
  type TlsOptions,
} from '../../connections/connect-socket.ts'
import { type OnReplies as OnRepliesOf, ReplyQueue } from '../../connections/reply-queue.ts'
import { createStallWatch } from '../../connections/stall-watch.ts'
import { createReplyParser, isArrayReply, isErrorReply, type Reply } from './reply-parser.ts'
import { createRequestWriter, type RequestWriter, requestHead } from './request-writer.ts'

/** The address of a Redis, and the options of a session with it. */
export interface SessionOptions {
  readonly endpoint: Endpoint
  readonly username?: string
  readonly password?: string
  /** The number of the database. Defaults to 0. */
  readonly database?: number
  /**
   * Enables TLS; `{}` trusts the certificate authorities that Node trusts. A function is called for each
   * connection, so that renewed certificates are used.
   */
  readonly tls?: TlsOptions | (() => TlsOptions)
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

/** One connection to one Redis, from connect to close. It is independent of the requests. */
export interface Session {
  /** Sends the written requests in one write, and clears the writer. No request is sent again. */
  send(requests: RequestWriter, onReplies: OnReplies): void
  /** Ends the session at once; the problem is the reason for missing replies. */
  end(problem: string): void
  /** Resolves when the socket is closed. Never rejects. */
  readonly closed: Promise<void>
}

export interface SessionEvents {
  /**
   * Redis has answered a PING, after AUTH and SELECT where they are needed. The session may be used from now
   * on.
   */
  onServing(): void
  /**
   * Called once when the session ends, before the callbacks of owed replies. The problem is the text of Redis
   * or of the network, and never contains the password.
   */
  onEnd(problem: string): void
  /** Redis owes replies and has sent nothing for `silenceMs`, */
  onSilence?(problem: string): void
  /** and after that has sent something. */
  onSign?(): void
}

export const lostText = 'the connection to Redis was lost'
const receiveBytes = 65_536

/**
 * Connects. The greeting contains only AUTH, SELECT and PING, unless the role matters, since proxies such as
 * twemproxy support no other commands. A server that is loading its data accepts connections and rejects
 * requests, so only a PONG proves that it serves.
 */
export function openSession(options: SessionOptions, events: SessionEvents): Session {
  const { timeoutMs, silenceMs = Number.POSITIVE_INFINITY, clock = systemClock } = options
  const owed = new ReplyQueue<Reply>()
  const greetingReplies: Reply[] = []
  let connected = false
  let serving = false
  let ended = false
  const busyPoll = createBusyPoll({ mode: options.busyPoll, clock, isOver: () => owed.isEmpty })
  const owedText = (ms: number) => `Redis owed replies and sent nothing for ${ms} ms`
  const watch = createStallWatch({
    clock,
    silence: {
      afterMs: () => (serving ? silenceMs : Number.POSITIVE_INFINITY),
      onBegin: afterMs => events.onSilence?.(owedText(afterMs)),
      onEnd: () => events.onSign?.(),
    },
    timeoutMs: () => timeoutMs,
    isWaiting: () => !ended && !(connected && owed.isEmpty),
    onStall: () =>
      end(connected ? owedText(timeoutMs) : `there was no connection to Redis after ${timeoutMs} ms`),
  })
  watch.begin()
  const parser = createReplyParser(onReply)
  const tls = typeof options.tls === 'function' ? options.tls() : options.tls
  const socket = connectSocket({ endpoint: options.endpoint, tls, receiveBytes }, (bytes, chunk) => {
    if (ended) return false
    watch.progress()
    const problem = parser.push(chunk, bytes)
    if (problem !== undefined) end(`malformed reply from Redis: ${problem}`)
    return !ended
  })
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  socket.once(tls === undefined ? 'connect' : 'secureConnect', greet)
  socket.once('end', () => end(lostText))
  socket.once('close', () => end(lostText))
  // The listener stays after the end: an error without a listener would end the process.
  socket.on('error', error => {
    const text = networkText(error, lostText)
    end(serving ? `${lostText}: ${text}` : text)
  })

  function end(problem: string): void {
    if (ended) return
    ended = true
    watch.stop()
    socket.destroy()
    // A server that rejects the greeting replies with the reason and then closes the connection.
    events.onEnd((serving ? undefined : refusalIn(greetingReplies, options.password)) ?? problem)
    owed.failAll(problem)
  }

  function onReply(reply: Reply): void {
    if (owed.take(reply)) return
    end(isErrorReply(reply) ? reply.error : 'Redis sent an unexpected reply')
  }

  function send(requests: RequestWriter, onReplies: OnReplies, replies: Reply[] = []): void {
    const count = requests.requests
    if (ended || count === 0) {
      requests.clear(true)
      onReplies(replies, ended ? lostText : undefined)
      return
    }
    const isLonely = serving && owed.isEmpty
    if (owed.isEmpty) watch.begin()
    owed.owe(count, onReplies, replies)
    socket.write(requests.bytes())
    // Usually the kernel has taken all bytes by now; otherwise the socket still reads that memory.
    requests.clear(socket.writableLength === 0)
    if (isLonely) busyPoll.begin(count)
  }

  function greet(): void {
    connected = true
    send(writeGreeting(options), onGreeted, greetingReplies)
  }

  function onGreeted(replies: readonly Reply[], problem: string | undefined): void {
    if (problem !== undefined) return
    const unfit = unfitness(replies, options)
    if (unfit !== undefined) {
      end(unfit)
      return
    }
    serving = true
    watch.stop()
    events.onServing()
  }

  return { send: (requests, onReplies) => send(requests, onReplies), end, closed }
}

/** Uses a separate writer, so that the password does not stay in the buffer that is reused. */
function writeGreeting({ username, password, database = 0, masterOnly }: SessionOptions): RequestWriter {
  const requests = createRequestWriter()
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
