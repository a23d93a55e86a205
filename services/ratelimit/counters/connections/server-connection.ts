import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { CircuitBreaker } from './circuit-breaker.ts'

export interface ServerSession {
  /** Resolves when the socket is closed. Never rejects. */
  readonly closed: Promise<void>
  /** Ends the session at once; the callbacks of requests without a reply receive `problem` as the reason. */
  end(problem: string): void
}

export interface SessionEvents {
  /** Called when the server has answered the greeting; the session may be used from now on. */
  onServing(): void
  /**
   * Called once when the session ends, before the callbacks of requests without a reply. The problem is the
   * text of the server or of the network, and never contains a password.
   */
  onEnd(problem: string): void
  /** Called when replies are due and the server has sent nothing for `breakerSilenceMs`. */
  onSilence(problem: string): void
  /** Called after `onSilence` when the server has sent something again. */
  onResume(): void
}

export interface ServerConnectionOptions {
  /** The delays between attempts to connect; reset after a success. */
  readonly backoff: Backoff
  /** Open while the server is silent although replies are due. */
  readonly breaker?: CircuitBreaker
}

/** A connection to one server, which reconnects after each loss until it is closed. */
export abstract class ServerConnection<Session extends ServerSession> {
  protected session: Session | undefined
  readonly #server: string
  readonly #backoff: Backoff
  readonly #breaker: CircuitBreaker | undefined
  #healthy = false
  #usable = false
  #problem: string
  #closed = false
  #retry: NodeJS.Timeout | undefined

  /** @param server `Redis` or `memcached`, for messages */
  constructor(server: string, { backoff, breaker }: ServerConnectionOptions) {
    this.#server = server
    this.#backoff = backoff
    this.#breaker = breaker
    this.#problem = `not connected to ${server} yet`
  }

  /** Whether the server has answered the greeting of the current session. */
  get healthy(): boolean {
    return this.#healthy
  }

  /** Whether calls may be sent: the connection is healthy and its circuit breaker is closed. */
  get usable(): boolean {
    return this.#usable
  }

  /** Why the connection is not usable: the error of the server or of the network, without secrets. */
  get problem(): string {
    return this.#problem
  }

  /** Ends the current session with this reason, and opens a new one after the backoff's delay. */
  renew(reason: string): void {
    this.session?.end(reason)
  }

  /** Closes for good; requests without a reply fail with the reason. Resolves when the socket is closed. */
  async close(): Promise<void> {
    if (!this.#closed) {
      this.#closed = true
      clearTimeout(this.#retry)
      this.#problem = `the connection to ${this.#server} is closed`
      this.session?.end(this.#problem)
    }
    await this.session?.closed
  }

  /** Opens a session; undefined while the address of the server is unknown. */
  protected abstract open(events: SessionEvents): Session | undefined

  /** Called when a session begins to serve, and when it ends; `before` is the health until then. */
  protected abstract onHealthChange(healthy: boolean, before: boolean): void

  protected get isClosed(): boolean {
    return this.#closed
  }

  protected connect(): void {
    this.session = this.open({
      onServing: () => {
        this.#backoff.reset()
        this.#use()
        this.#become(true)
      },
      onSilence: problem => {
        this.#breaker?.open(problem)
        this.#stopUsing(problem)
      },
      onResume: () => {
        this.#breaker?.close(`${this.#server} answers again`)
        this.#use()
      },
      onEnd: problem => {
        this.#breaker?.close(problem)
        this.#stopUsing(problem)
        if (!this.#closed) this.#retry = setTimeout(() => this.connect(), this.#backoff.nextMs())
        this.#become(false)
      },
    })
  }

  /** Ends the current session with this reason, and opens a new one at once. */
  protected reconnect(reason: string): void {
    this.session?.end(reason)
    clearTimeout(this.#retry)
    this.#backoff.reset()
    this.connect()
  }

  #use(): void {
    this.#usable = true
    this.#problem = describeLoss(this.#server)
  }

  #stopUsing(problem: string): void {
    this.#usable = false
    this.#problem = problem
  }

  #become(healthy: boolean): void {
    const before = this.#healthy
    this.#healthy = healthy
    this.onHealthChange(healthy, before)
  }
}

export function describeLoss(server: string): string {
  return `the connection to ${server} was lost`
}
