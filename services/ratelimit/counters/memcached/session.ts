import type { Clock } from '@tollway/chassis/clock.ts'
import { type BusyPollMode, createBusyPoll } from '../busy-poll.ts'
import { connectSocket, type Endpoint, networkText, type TlsOptions } from '../connect-socket.ts'
import { type OnReplies as OnRepliesOf, ReplyQueue } from '../reply-queue.ts'
import { createStallWatch } from '../stall-watch.ts'
import { createReplyParser, isErrorReply, isValueReply, type Reply } from './reply-parser.ts'

export interface SessionOptions {
  readonly endpoint: Endpoint
  /** TLS, when given. A function is asked at each connection, for certificates that are renewed. */
  readonly tls?: TlsOptions | (() => TlsOptions)
  /** The session ends when memcached has not answered for the first time after so long, */
  readonly connectTimeoutMs: number
  /** and when it owes replies and brings nothing for so long. */
  readonly stallTimeoutMs: number
  /** After which time without a byte, while replies are owed, `onSilence` is called. */
  readonly silenceMs: number
  readonly clock: Clock
  /** Whether the event loop stays awake for replies that come soon. */
  readonly busyPoll?: BusyPollMode
}

export type OnReplies = OnRepliesOf<Reply>

/** One connection to one memcached, from its beginning to its end. */
export interface Session {
  /** Sends so many requests in one write. Nothing is ever sent again. */
  send(requests: string, count: number, onReplies: OnReplies): void
  /** Ends it at once; replies that are owed are missing because of that problem. */
  end(problem: string): void
  /** When the socket is closed. Never rejects. */
  readonly closed: Promise<void>
}

export interface SessionEvents {
  /** Memcached has answered; from now on the session may be used. */
  onServing(): void
  /** Called once, for whatever reason the session ended, before those who wait for replies are told. */
  onEnd(problem: string): void
  /** Memcached owes replies and has sent nothing for `silenceMs`, */
  onSilence(problem: string): void
  /** and after that has sent something. */
  onSign(): void
}

export const lostText = 'the connection to memcached was lost'
const receiveBytes = 16_384

/** Any server and any proxy knows it, and it changes nothing. */
const greeting = 'get tollway_probe\r\n'

/** Connects, and asks for a key: that the port is open does not prove that memcached serves. */
export function openSession(options: SessionOptions, events: SessionEvents): Session {
  const { connectTimeoutMs, stallTimeoutMs, silenceMs, clock } = options
  const owed = new ReplyQueue<Reply>()
  let serving = false
  let ended = false
  const busyPoll = createBusyPoll({ mode: options.busyPoll, clock, isOver: () => owed.isEmpty })
  const owedText = (ms: number) => `memcached owed replies and brought nothing for ${ms} ms`
  const watch = createStallWatch({
    clock,
    silence: {
      afterMs: () => (serving ? silenceMs : Number.POSITIVE_INFINITY),
      onBegin: afterMs => events.onSilence(owedText(afterMs)),
      onEnd: events.onSign,
    },
    timeoutMs: () => (serving ? stallTimeoutMs : connectTimeoutMs),
    isWaiting: () => !ended && !(serving && owed.isEmpty),
    onStall: timeoutMs =>
      end(
        serving ? owedText(timeoutMs) : `memcached did not answer for the first time within ${timeoutMs} ms`,
      ),
  })
  watch.begin()
  const parser = createReplyParser(onReply)
  const tls = typeof options.tls === 'function' ? options.tls() : options.tls
  const socket = connectSocket({ endpoint: options.endpoint, tls, receiveBytes }, (bytes, chunk) => {
    if (ended) return false
    if (serving) watch.progress()
    const problem = parser.push(chunk, bytes)
    if (problem !== undefined) end(`what was sent as memcached's reply is none: ${problem}`)
    return !ended
  })
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  socket.once(tls === undefined ? 'connect' : 'secureConnect', () => write(greeting, 1, onGreeted))
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
    events.onEnd(problem)
    owed.giveUp(problem)
  }

  function onReply(reply: Reply): void {
    if (ended) return
    if (!isOutOfStep(reply) && owed.take(reply)) return
    end(isErrorReply(reply) ? reply.error : 'memcached sent a reply that nobody had asked for')
  }

  function write(requests: string, count: number, onReplies: OnReplies): void {
    if (ended || count === 0) {
      onReplies([], ended ? lostText : undefined)
      return
    }
    const isLonely = serving && owed.isEmpty
    if (isLonely) watch.begin()
    owed.owe(count, onReplies)
    socket.write(requests)
    if (isLonely) busyPoll.begin(count)
  }

  function onGreeted([reply]: readonly Reply[], problem: string | undefined): void {
    if (problem !== undefined) return
    if (isErrorReply(reply)) end(reply.error)
    else if (!isValueReply(reply)) end('what answers is not memcached')
    else {
      serving = true
      watch.stop()
      events.onServing()
    }
  }

  return { send: write, end, closed }
}

/**
 * Whether the error says that requests are not read as they were written: the replies behind it may be to
 * anything. Other errors are about one key, or the server's memory.
 */
function isOutOfStep(reply: Reply): boolean {
  return isErrorReply(reply) && /^(ERROR|CLIENT_ERROR (?!cannot increment))/.test(reply.error)
}
