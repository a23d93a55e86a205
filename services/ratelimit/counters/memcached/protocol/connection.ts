import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { CircuitBreaker } from '../../connections/circuit-breaker.ts'
import { lostText, type OnReplies, Session, type SessionOptions } from './session.ts'

export interface ConnectionOptions extends SessionOptions {
  /** The delays between attempts; reset after a success. */
  readonly backoff: Backoff
  /** Opens and closes with the silences of memcached. */
  readonly breaker: CircuitBreaker
}

const closedText = 'the connection to memcached is closed'

/** A connection to one memcached, which reconnects after each loss until it is closed. */
export class Connection {
  readonly #options: ConnectionOptions
  readonly #listeners: (() => void)[] = []
  #session: Session
  #healthy = false
  #usable = false
  #tried = false
  #problem = 'not connected to memcached yet'
  #closed = false
  #retry: NodeJS.Timeout | undefined

  /** Connects at once. Never throws; errors are in `problem`, and `onChange` reports changes. */
  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#session = this.#open()
  }

  /** Whether memcached has answered on the current connection. */
  get healthy(): boolean {
    return this.#healthy
  }

  /** Whether calls may be sent: the connection is healthy and its circuit breaker is closed. */
  get usable(): boolean {
    return this.#usable
  }

  /** Whether at least one attempt to connect has succeeded or failed. */
  get tried(): boolean {
    return this.#tried
  }

  /** Why it is not usable: the error of memcached or of the network. */
  get problem(): string {
    return this.#problem
  }

  /**
   * Sends `count` requests in one write. While the connection is not healthy, `onReplies` is called at once,
   * from within the call. Nothing is kept for later, and nothing is sent twice.
   */
  send(requests: string, count: number, onReplies: OnReplies): void {
    if (this.#healthy) this.#session.send(requests, count, onReplies)
    else onReplies([], this.#problem)
  }

  /** Adds a listener that is called after each change of `healthy`, and when the first attempt has failed. */
  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  /** Ends the current connection for that reason, and opens a new one after a delay. */
  renew(reason: string): void {
    this.#session.end(reason)
  }

  /**
   * Closes the connection for good; requests without a reply get the reason. Resolves when the socket is
   * closed.
   */
  async close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true
      clearTimeout(this.#retry)
      this.#session.end(closedText)
      this.#problem = closedText
    }
    await this.#session.closed
  }

  #open(): Session {
    const { backoff, breaker } = this.#options
    return new Session(this.#options, {
      onServing: () => {
        backoff.reset()
        this.#use()
        this.#change(true)
      },
      onSilence: problem => {
        breaker.open(problem)
        this.#stopUsing(problem)
      },
      onSign: () => {
        breaker.close('memcached answers again')
        this.#use()
      },
      onEnd: reason => {
        breaker.close(reason)
        this.#stopUsing(reason)
        if (!this.#closed) this.#retry = setTimeout(() => this.#reopen(), backoff.nextMs())
        this.#change(false)
      },
    })
  }

  #reopen(): void {
    this.#session = this.#open()
  }

  #use(): void {
    this.#usable = true
    this.#problem = lostText
  }

  #stopUsing(problem: string): void {
    this.#usable = false
    this.#problem = problem
  }

  #change(healthy: boolean): void {
    if (this.#healthy === healthy && this.#tried) return
    this.#healthy = healthy
    this.#tried = true
    for (const listener of this.#listeners) listener()
  }
}
