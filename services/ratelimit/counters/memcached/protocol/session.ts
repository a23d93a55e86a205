import type { Clock } from '@tollway/chassis/clock.ts'
import { type BusyPollMode, createBusyPoll } from '../../connections/busy-poll.ts'
import {
  connectSocket,
  type Endpoint,
  networkText,
  type TlsOptions,
} from '../../connections/connect-socket.ts'
import { type OnReplies as OnRepliesOf, ReplyQueue } from '../../connections/reply-queue.ts'
import { createStallWatch } from '../../connections/stall-watch.ts'
import { createReplyParser, isErrorReply, isValueReply, type Reply } from './reply-parser.ts'

export interface SessionOptions {
  readonly endpoint: Endpoint
  /** Enables TLS. A function is called for each connection, so that renewed certificates are used. */
  readonly tls?: TlsOptions | (() => TlsOptions)
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

/** One connection to one memcached, from connect to close. */
export interface Session {
  /** Sends `count` requests in one write. No request is sent again. */
  send(requests: string, count: number, onReplies: OnReplies): void
  /** Ends the session at once; the problem is the reason for missing replies. */
  end(problem: string): void
  /** Resolves when the socket is closed. Never rejects. */
  readonly closed: Promise<void>
}

export interface SessionEvents {
  /** Memcached has answered; the session may be used from now on. */
  onServing(): void
  /** Called once when the session ends, before the callbacks of owed replies. */
  onEnd(problem: string): void
  /** Memcached owes replies and has sent nothing for `silenceMs`, */
  onSilence(problem: string): void
  /** and after that has sent something. */
  onSign(): void
}

export const lostText = 'the connection to memcached was lost'
const receiveBytes = 16_384

/** A request that every server and proxy supports, and that changes nothing. */
const greeting = 'get tollway_probe\r\n'

/** Connects, and reads a key: an open port does not prove that memcached serves. */
export function openSession(options: SessionOptions, events: SessionEvents): Session {
  const { connectTimeoutMs, stallTimeoutMs, silenceMs, clock } = options
  const owed = new ReplyQueue<Reply>()
  let serving = false
  let ended = false
  const busyPoll = createBusyPoll({ mode: options.busyPoll, clock, isOver: () => owed.isEmpty })
  const owedText = (ms: number) => `memcached owed replies and sent nothing for ${ms} ms`
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
    if (problem !== undefined) end(`malformed reply from memcached: ${problem}`)
    return !ended
  })
  const closed = new Promise<void>(resolve => socket.once('close', () => resolve()))
  socket.once(tls === undefined ? 'connect' : 'secureConnect', () => write(greeting, 1, onGreeted))
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
    events.onEnd(problem)
    owed.failAll(problem)
  }

  function onReply(reply: Reply): void {
    if (ended) return
    if (!isOutOfStep(reply) && owed.take(reply)) return
    end(isErrorReply(reply) ? reply.error : 'memcached sent an unexpected reply')
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
    else if (!isValueReply(reply)) end('the server is not memcached')
    else {
      serving = true
      watch.stop()
      events.onServing()
    }
  }

  return { send: write, end, closed }
}

/**
 * Returns whether the error means that memcached parsed the requests differently than they were written:
 * later replies cannot be assigned then. Other errors are about one key, or about the server's memory.
 */
function isOutOfStep(reply: Reply): boolean {
  return isErrorReply(reply) && /^(ERROR|CLIENT_ERROR (?!cannot increment))/.test(reply.error)
}
