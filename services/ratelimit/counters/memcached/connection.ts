import {
  ServerConnection,
  type ServerConnectionOptions,
  type SessionEvents,
} from '../connections/server-connection.ts'
import {
  type OnReplies as OnRepliesOf,
  type ServerProtocol,
  SocketSession,
  type SocketSessionOptions,
} from '../connections/socket-session.ts'
import { isMemcachedError, isValueReply, type MemcachedReply, MemcachedReplyParser } from './reply-parser.ts'

type ConnectionOptions = SocketSessionOptions & Required<ServerConnectionOptions>

export class MemcachedConnection extends ServerConnection<MemcachedSession> {
  readonly #options: ConnectionOptions
  readonly #listeners: (() => void)[] = []
  #tried = false

  /** Connects at once. Never throws: `problem` describes an error, and `onChange` reports changes. */
  constructor(options: ConnectionOptions) {
    super('memcached', options)
    this.#options = options
    this.connect()
  }

  /** Whether at least one attempt to connect has succeeded or failed. */
  get tried(): boolean {
    return this.#tried
  }

  /**
   * Sends `count` requests in one write. While the connection is not healthy, `onReplies` is called at once,
   * from within the call, with the problem. Nothing is kept for later, and nothing is sent twice.
   */
  send(requests: string, count: number, onReplies: OnReplies): void {
    if (this.healthy && this.session !== undefined) this.session.send(requests, count, onReplies)
    else onReplies([], this.problem)
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  protected open(events: SessionEvents): MemcachedSession {
    return new MemcachedSession(this.#options, events)
  }

  protected onHealthChange(healthy: boolean, before: boolean): void {
    if (healthy === before && this.#tried) return
    this.#tried = true
    for (const listener of this.#listeners) listener()
  }
}

type OnReplies = OnRepliesOf<MemcachedReply>

/** A request that every server and proxy supports, and that changes nothing. */
const greeting = 'get tollway_probe\r\n'

const memcached: ServerProtocol<MemcachedReply> = {
  server: 'memcached',
  receiveBytes: 16_384,
  timesGreeting: false,
  createParser: onReply => new MemcachedReplyParser(onReply),
  errorOf: reply => (isMemcachedError(reply) ? reply.error : undefined),
  isOutOfStep,
  notServing: (_, timeoutMs) => `memcached did not answer for the first time within ${timeoutMs} ms`,
}

/** Greets by reading a key, because an open port does not prove that memcached serves. */
class MemcachedSession extends SocketSession<MemcachedReply> {
  constructor(options: SocketSessionOptions, events: SessionEvents) {
    super(memcached, options, events)
  }

  /** No request is sent again. */
  send(requests: string, count: number, onReplies: OnReplies): void {
    if (this.ending !== undefined || count === 0) onReplies([], this.ending)
    else this.write(requests, count, onReplies)
  }

  protected greet(): void {
    this.send(greeting, 1, ([reply], problem) => {
      if (problem !== undefined) return
      if (isMemcachedError(reply)) this.end(reply.error)
      else if (!isValueReply(reply)) this.end('the server is not memcached')
      else this.serve()
    })
  }
}

/**
 * Returns whether the error shows that memcached parsed the requests differently than they were written, so
 * that later replies cannot be matched with requests. Other errors concern one key, or the server's memory.
 */
function isOutOfStep(reply: MemcachedReply): boolean {
  return isMemcachedError(reply) && /^(ERROR|CLIENT_ERROR (?!cannot increment))/.test(reply.error)
}
