import { isDeepStrictEqual } from 'node:util'
import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { CircuitBreaker } from '../../connections/circuit-breaker.ts'
import type { Endpoint } from '../../connections/connect-socket.ts'
import type { PoolStats } from './pool-stats.ts'
import type { RequestWriter } from './request-writer.ts'
import { lostText, type OnReplies, Session, type SessionOptions } from './session.ts'

export interface RespConnectionOptions extends Omit<SessionOptions, 'endpoint'> {
  /** When left out, nothing is connected before `moveTo`. */
  readonly endpoint?: Endpoint
  /** The delays between attempts; reset after a PONG. */
  readonly backoff: Backoff
  /** Counts the connections that received a PONG. */
  readonly stats?: PoolStats
  /** Opens and closes with the silences of Redis; none when left out. */
  readonly breaker?: CircuitBreaker
}

const closedText = 'the connection to Redis is closed'
const movedText = 'Redis is at another address now'

/** A connection to one Redis, which reconnects after each loss until it is closed. */
export class RespConnection {
  readonly #options: RespConnectionOptions
  readonly #listeners: ((healthy: boolean) => void)[] = []
  #endpoint: Endpoint | undefined
  #session: Session | undefined
  #healthy = false
  #usable = false
  #problem = 'not connected to Redis yet'
  #closed = false
  #retry: NodeJS.Timeout | undefined

  /**
   * Connects at once. Only programming errors throw; all others are in `problem`, and `onHealth` reports
   * changes.
   */
  constructor(options: RespConnectionOptions) {
    this.#options = options
    this.#endpoint = options.endpoint
    this.#open()
  }

  /** The address of Redis; undefined while it is unknown. */
  get endpoint(): Endpoint | undefined {
    return this.#endpoint
  }

  /** Whether Redis has answered a PING on the current connection. */
  get healthy(): boolean {
    return this.#healthy
  }

  /** Whether calls may be sent: the connection is healthy and its circuit breaker is closed. */
  get usable(): boolean {
    return this.#usable
  }

  /** Why it is not usable: the error of Redis or of the network, without secrets. */
  get problem(): string {
    return this.#problem
  }

  /**
   * Sends the written requests in one write, and clears the writer. While the connection is not healthy,
   * `onReplies` is called at once, from within the call. Nothing is kept for later, and nothing is sent
   * twice.
   */
  send(requests: RequestWriter, onReplies: OnReplies): void {
    if (this.#healthy && this.#session !== undefined) this.#session.send(requests, onReplies)
    else {
      requests.clear(true)
      onReplies([], this.#problem)
    }
  }

  /** Adds a listener that is called after each change of `healthy`. */
  onHealth(listener: (healthy: boolean) => void): void {
    this.#listeners.push(listener)
  }

  /** Changes the address: a connection to another one ends, and the new one is opened at once. */
  moveTo(endpoint: Endpoint): void {
    if (this.#closed || isDeepStrictEqual(this.#endpoint, endpoint)) return
    this.#endpoint = endpoint
    this.#session?.end(movedText)
    clearTimeout(this.#retry)
    this.#options.backoff.reset()
    this.#open()
  }

  /** Ends the current connection for that reason, and opens a new one after a delay. */
  renew(reason: string): void {
    this.#session?.end(reason)
  }

  /**
   * Closes the connection for good; requests without a reply get the reason. Resolves when the socket is
   * closed.
   */
  async close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true
      clearTimeout(this.#retry)
      this.#problem = closedText
      this.#session?.end(closedText)
    }
    await this.#session?.closed
  }

  #open(): void {
    const endpoint = this.#endpoint
    if (endpoint === undefined) return
    const { backoff, breaker, stats } = this.#options
    this.#session = new Session(
      { ...this.#options, endpoint },
      {
        onServing: () => {
          backoff.reset()
          stats?.opened()
          this.#use()
          this.#become(true)
        },
        onSilence: problem => {
          breaker?.open(problem)
          this.#stopUsing(problem)
        },
        onSign: () => {
          breaker?.close('Redis answers again')
          this.#use()
        },
        onEnd: reason => {
          breaker?.close(reason)
          this.#stopUsing(reason)
          if (!this.#closed) this.#retry = setTimeout(() => this.#open(), backoff.nextMs())
          if (this.#healthy) stats?.ended()
          this.#become(false)
        },
      },
    )
  }

  #use(): void {
    this.#usable = true
    this.#problem = lostText
  }

  #stopUsing(problem: string): void {
    this.#usable = false
    this.#problem = problem
  }

  #become(healthy: boolean): void {
    if (this.#healthy === healthy) return
    this.#healthy = healthy
    for (const listener of this.#listeners) listener(healthy)
  }
}
