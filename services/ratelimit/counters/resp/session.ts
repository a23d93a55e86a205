import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import { type BusyPollMode, createBusyPoll } from '../busy-poll.ts'
import { connectSocket, type Endpoint, networkText, type TlsOptions } from '../connect-socket.ts'
import { type OnReplies as OnRepliesOf, ReplyQueue } from '../reply-queue.ts'
import { createStallWatch } from '../stall-watch.ts'
import { createReplyParser, isArrayReply, isErrorReply, type Reply } from './reply-parser.ts'
import { createRequestWriter, type RequestWriter, requestHead } from './request-writer.ts'

/** Where a Redis listens, and how a session with it begins. */
export interface SessionOptions {
  readonly endpoint: Endpoint
  readonly username?: string
  readonly password?: string
  /** The number of the database; 0 when left out. */
  readonly database?: number
  /**
   * TLS, when given; `{}` trusts the authorities that Node trusts. A function is asked at each connection, for
   * certificates that are renewed.
   */
  readonly tls?: TlsOptions | (() => TlsOptions)
  /** Whether the event loop stays awake for replies that come soon. */
  readonly busyPoll?: BusyPollMode
  /** Only a master is good: ROLE is asked for too, and a replica is refused. */
  readonly masterOnly?: boolean
  /**
   * The session ends when it is not connected after so long, and when it owes replies and brings nothing for
   * so long.
   */
  readonly timeoutMs: number
  /** After which time without a byte, while replies are owed, `onSilence` is called; never when left out. */
  readonly silenceMs?: number
  /** For the timeout; the system's when left out. */
  readonly clock?: Clock
}

export type OnReplies = OnRepliesOf<Reply>

/** One connection to one Redis, from its beginning to its end. Knows nothing of what is asked. */
export interface Session {
  /** Sends what was written, in one write, and clears the writer. Nothing is ever sent again. */
  send(requests: RequestWriter, onReplies: OnReplies): void
  /** Ends it at once; replies that are owed are missing because of that problem. */
  end(problem: string): void
  /** When the socket is closed. Never rejects. */
  readonly closed: Promise<void>
}

export interface SessionEvents {
  /**
   * Redis has answered a PING, after AUTH and SELECT where they are asked for. From now on the session may be
   * used.
   */
  onServing(): void
  /**
   * Called once, for whatever reason the session ended, before those who wait for replies are told. The
   * problem is the text of Redis or of the network, and never holds the password.
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
 * Connects, and greets with nothing but AUTH, SELECT and PING, unless the role matters: proxies such as
 * twemproxy know no more. A server that is loading its data takes connections and refuses requests, so only a
 * PONG proves that it serves.
 */
export function openSession(options: SessionOptions, events: SessionEvents): Session {
  const { timeoutMs, silenceMs = Number.POSITIVE_INFINITY, clock = systemClock } = options
  const owed = new ReplyQueue<Reply>()
  const greetingReplies: Reply[] = []
  let connected = false
  let serving = false
  let ended = false
  const busyPoll = createBusyPoll({ mode: options.busyPoll, clock, isOver: () => owed.isEmpty })
  const owedText = (ms: number) => `Redis owed replies and brought nothing for ${ms} ms`
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
    if (problem !== undefined) end(`what was sent as Redis's reply is none: ${problem}`)
    return !ended
  })
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  socket.once(tls === undefined ? 'connect' : 'secureConnect', greet)
  socket.once('end', () => end(lostText))
  socket.once('close', () => end(lostText))
  // Stays for errors after the end: nobody would hear those, and the process would end.
  socket.on('error', error => {
    const text = networkText(error, lostText)
    end(serving ? `${lostText}: ${text}` : text)
  })

  function end(problem: string): void {
    if (ended) return
    ended = true
    watch.stop()
    socket.destroy()
    // A server that refuses says so and hangs up.
    events.onEnd((serving ? undefined : refusalIn(greetingReplies, options.password)) ?? problem)
    owed.giveUp(problem)
  }

  function onReply(reply: Reply): void {
    if (owed.take(reply)) return
    end(isErrorReply(reply) ? reply.error : 'Redis sent a reply that nobody had asked for')
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
    // Mostly the kernel has taken all of it by now; otherwise the socket goes on reading that memory.
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

/** In a writer of its own, so that the password does not stay in the one that is used again. */
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

/** Why a session with this greeting is of no use; where an error says why, that goes before this text. */
function unfitness(replies: readonly Reply[], { password, masterOnly }: SessionOptions): string | undefined {
  const pong = replies.at(masterOnly ? -2 : -1)
  if (refusalIn(replies, password) !== undefined || pong !== 'PONG') {
    return 'what answers is not Redis: PING brought no PONG'
  }
  if (!masterOnly) return undefined
  const role = replies.at(-1)
  return isArrayReply(role) && role[0] === 'master' ? undefined : 'it is a replica and not the master'
}

/**
 * The first error, for what follows from it is of no interest. A server that does not know AUTH quotes what
 * came with it, a part of a long password perhaps.
 */
function refusalIn(replies: readonly Reply[], password = ''): string | undefined {
  const text = replies.find(isErrorReply)?.error.replace(/,? with args beginning with.*$/s, '')
  return password === '' ? text : text?.replaceAll(password, '***')
}
