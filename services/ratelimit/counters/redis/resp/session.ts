import { type Clock, systemClock } from '@tollway/chassis/clock.ts'
import type { BusyPollMode } from '../../connections/busy-poll.ts'
import type { SocketOptions } from '../../connections/connect-socket.ts'
import type { SessionEvents } from '../../connections/server-connection.ts'
import {
  type OnReplies as OnRepliesOf,
  type ServerProtocol,
  SocketSession,
} from '../../connections/socket-session.ts'
import { createReplyParser, isArrayReply, isErrorReply, type RedisReply } from './reply-parser.ts'
import { RespWriter, requestHead } from './request-writer.ts'

/** The address of a Redis, and the options of a session with it. */
export interface RedisSessionOptions extends SocketOptions {
  readonly username?: string
  readonly password?: string
  /** The number of the database. Defaults to 0. */
  readonly database?: number
  readonly busyPoll?: BusyPollMode | undefined
  /** Requires a master: the greeting includes ROLE, and a replica is rejected. */
  readonly masterOnly?: boolean
  /** The session ends when it is not connected, or replies are due and none arrives, for this time. */
  readonly timeoutMs: number
  /** `onSilence` is called after this time without a due reply; never when left out. */
  readonly silenceMs?: number
  readonly clock?: Clock
  /** Receives replies that answer no request: messages of a subscription. Without it they end the session. */
  readonly onPush?: (reply: RedisReply) => void
}

export type OnRedisReplies = OnRepliesOf<RedisReply>

const redis: ServerProtocol<RedisReply> = {
  server: 'Redis',
  receiveBytes: 65_536,
  timesGreeting: true,
  createParser: onReply => createReplyParser(onReply),
  errorOf: reply => (isErrorReply(reply) ? reply.error : undefined),
  isOutOfStep: () => false,
  notServing: (isConnected, timeoutMs) =>
    isConnected
      ? `Redis owed replies and sent nothing for ${timeoutMs} ms`
      : `there was no connection to Redis after ${timeoutMs} ms`,
}

/**
 * One connection to one Redis. The greeting contains only AUTH, SELECT and PING, and ROLE with `masterOnly`,
 * because proxies such as twemproxy support no other commands. A server that is loading its data accepts
 * connections and rejects requests, so only a PONG proves that it serves.
 */
export class RedisSession extends SocketSession<RedisReply> {
  readonly #options: RedisSessionOptions
  readonly #greetingReplies: RedisReply[] = []

  constructor(options: RedisSessionOptions, events: SessionEvents) {
    const { timeoutMs, silenceMs = Number.POSITIVE_INFINITY, clock = systemClock } = options
    const timeouts = { connectTimeoutMs: timeoutMs, stallTimeoutMs: timeoutMs, silenceMs }
    super(redis, { ...options, ...timeouts, clock }, events)
    this.#options = options
  }

  /** Sends the requests of the writer in one write and clears the writer. No request is ever sent again. */
  send(requests: RespWriter, onReplies: OnRedisReplies, replies: RedisReply[] = []): void {
    const count = requests.requests
    if (this.ending !== undefined || count === 0) {
      requests.clear(true)
      onReplies(replies, this.ending)
    } else requests.clear(this.write(requests.bytes(), count, onReplies, replies))
  }

  protected override takePush(reply: RedisReply): boolean {
    this.#options.onPush?.(reply)
    return this.#options.onPush !== undefined
  }

  protected greet(): void {
    const onGreeted: OnRedisReplies = (replies, problem) => {
      if (problem !== undefined) return
      const unfit = findGreetingProblem(replies, this.#options)
      if (unfit === undefined) this.serve()
      else this.end(unfit)
    }
    this.send(writeGreeting(this.#options), onGreeted, this.#greetingReplies)
  }

  /** A server that rejects the greeting sends the error before it closes. */
  protected override rejection(): string | undefined {
    return this.isServing ? undefined : findRejection(this.#greetingReplies, this.#options.password)
  }
}

/** Uses a writer of its own, so that the password does not stay in the buffer that later requests reuse. */
function writeGreeting({ username, password, database = 0, masterOnly }: RedisSessionOptions): RespWriter {
  const requests = new RespWriter()
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
 * Returns why a session whose greeting got these replies cannot be used. If a reply is an error, the session
 * reports that error instead of the text returned here (`rejection`).
 */
function findGreetingProblem(
  replies: readonly RedisReply[],
  { password, masterOnly }: RedisSessionOptions,
): string | undefined {
  const pong = replies.at(masterOnly ? -2 : -1)
  if (findRejection(replies, password) !== undefined || pong !== 'PONG') {
    return 'the server is not Redis: the reply to PING is not PONG'
  }
  if (!masterOnly) return undefined
  const role = replies.at(-1)
  return isArrayReply(role) && role[0] === 'master' ? undefined : 'the server is a replica and not the master'
}

/**
 * Returns the first error without secrets; later errors follow from it. A server that does not support AUTH
 * quotes the command's arguments, which may include a part of a long password, so the quotation is removed.
 */
function findRejection(replies: readonly RedisReply[], password = ''): string | undefined {
  const text = replies.find(isErrorReply)?.error.replace(/,? with args beginning with.*$/s, '')
  return password === '' ? text : text?.replaceAll(password, '***')
}

/**
 * Sends one infrequent request. Never rejects: if there is no reply, resolves with an error reply whose text
 * is the reason.
 *
 * @param words the command and its arguments
 */
export function sendCommand(
  connection: Pick<RedisSession, 'send'>,
  ...words: readonly string[]
): Promise<RedisReply> {
  const [name = '', ...args] = words
  const requests = new RespWriter()
  requests.begin(requestHead(name, args.length))
  for (const argument of args) requests.text(argument)
  return new Promise(resolve => {
    connection.send(requests, ([reply], problem = 'Redis left out a reply') => {
      resolve(reply === undefined ? { error: problem } : reply)
    })
  })
}

/** Like `sendCommand`, but on a separate connection, which is closed after the reply. */
export function sendCommandOnce(
  options: RedisSessionOptions,
  ...words: readonly string[]
): Promise<RedisReply> {
  const { promise, resolve } = Promise.withResolvers<RedisReply>()
  const session = new RedisSession(options, {
    async onServing() {
      resolve(await sendCommand(session, ...words))
      session.end('the reply has arrived')
    },
    onEnd: problem => resolve({ error: problem }),
    onSilence() {},
    onResume() {},
  })
  return promise
}
