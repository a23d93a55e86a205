import { isDeepStrictEqual } from 'node:util'
import type { ServerEndpoint } from '../../connections/connect-socket.ts'
import {
  ServerConnection,
  type ServerConnectionOptions,
  type SessionEvents,
} from '../../connections/server-connection.ts'
import type { RespWriter } from './request-writer.ts'
import { type OnRedisReplies, RedisSession, type RedisSessionOptions } from './session.ts'

export interface RespConnectionOptions
  extends Omit<RedisSessionOptions, 'endpoint'>,
    ServerConnectionOptions {
  /** The address of Redis. When left out, nothing is connected before `moveTo` is called. */
  readonly endpoint?: ServerEndpoint
}

const movedText = 'Redis is at another address now'

export class RespConnection extends ServerConnection<RedisSession> {
  readonly #options: RespConnectionOptions
  readonly #listeners: ((healthy: boolean) => void)[] = []
  #endpoint: ServerEndpoint | undefined

  /** Connects at once and never throws: `problem` describes a failure, and `onHealth` reports changes. */
  constructor(options: RespConnectionOptions) {
    super('Redis', options)
    this.#options = options
    this.#endpoint = options.endpoint
    this.connect()
  }

  get endpoint(): ServerEndpoint | undefined {
    return this.#endpoint
  }

  /**
   * Sends the requests of the writer in one write and clears the writer. While the connection is not healthy,
   * `onReplies` is called at once, from within the call, with the problem. Nothing is kept for later, and
   * nothing is sent twice.
   */
  send(requests: RespWriter, onReplies: OnRedisReplies): void {
    if (this.healthy && this.session !== undefined) this.session.send(requests, onReplies)
    else {
      requests.clear(true)
      onReplies([], this.problem)
    }
  }

  onHealth(listener: (healthy: boolean) => void): void {
    this.#listeners.push(listener)
  }

  /** Changes the address: the connection to the old one ends, and one to the new one is opened at once. */
  moveTo(endpoint: ServerEndpoint): void {
    if (this.isClosed || isDeepStrictEqual(this.#endpoint, endpoint)) return
    this.#endpoint = endpoint
    this.reconnect(movedText)
  }

  protected open(events: SessionEvents): RedisSession | undefined {
    const endpoint = this.#endpoint
    return endpoint === undefined ? undefined : new RedisSession({ ...this.#options, endpoint }, events)
  }

  protected onHealthChange(healthy: boolean, before: boolean): void {
    if (healthy !== before) for (const listener of this.#listeners) listener(healthy)
  }
}
