import {
  ServerConnection,
  type ServerConnectionOptions,
  type SessionEvents,
} from '../../connections/server-connection.ts'
import type { SocketSessionOptions } from '../../connections/socket-session.ts'
import { type OnReplies, Session } from './session.ts'

export type ConnectionOptions = SocketSessionOptions & Required<ServerConnectionOptions>

/** A connection to one memcached, which reconnects after each loss until it is closed. */
export class Connection extends ServerConnection<Session> {
  readonly #options: ConnectionOptions
  readonly #listeners: (() => void)[] = []
  #tried = false

  /** Connects at once. Never throws; errors are in `problem`, and `onChange` reports changes. */
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
   * from within the call. Nothing is kept for later, and nothing is sent twice.
   */
  send(requests: string, count: number, onReplies: OnReplies): void {
    if (this.healthy && this.session !== undefined) this.session.send(requests, count, onReplies)
    else onReplies([], this.problem)
  }

  /** Adds a listener that is called after each change of `healthy`, and when the first attempt has failed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  protected open(events: SessionEvents): Session {
    return new Session(this.#options, events)
  }

  protected noteHealth(healthy: boolean, before: boolean): void {
    if (healthy === before && this.#tried) return
    this.#tried = true
    for (const listener of this.#listeners) listener()
  }
}
