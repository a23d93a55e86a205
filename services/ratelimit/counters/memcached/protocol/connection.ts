import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { CircuitBreaker } from '../../connections/circuit-breaker.ts'
import { lostText, type OnReplies, openSession, type Session, type SessionOptions } from './session.ts'

/** A connection to one memcached, which reconnects after each loss until it is closed. */
export interface Connection {
  /**
   * Sends `count` requests in one write. While the connection is not healthy, `onReplies` is called at once,
   * from within the call. Nothing is kept for later, and nothing is sent twice.
   */
  send(requests: string, count: number, onReplies: OnReplies): void
  /** Whether memcached has answered on the current connection. */
  readonly healthy: boolean
  /** Whether calls may be sent: the connection is healthy and its circuit breaker is closed. */
  readonly usable: boolean
  /** Whether at least one attempt to connect has succeeded or failed. */
  readonly tried: boolean
  /** Why it is not usable: the error of memcached or of the network. */
  readonly problem: string
  /** Called after each change of `healthy`, and when the first attempt has failed. */
  onChange(listener: () => void): void
  /** Ends the current connection for that reason, and opens a new one after a delay. */
  renew(reason: string): void
  /**
   * Closes the connection for good; requests without a reply get the reason. Resolves when the socket is
   * closed.
   */
  close(): Promise<void>
}

export interface ConnectionOptions extends SessionOptions {
  /** The delays between attempts; reset after a success. */
  readonly backoff: Backoff
  /** Opens and closes with the silences of memcached. */
  readonly breaker: CircuitBreaker
}

/** The mutable view for this file. Accessors would make V8 keep the object as a hash table. */
interface State {
  healthy: boolean
  usable: boolean
  tried: boolean
  problem: string
}

const closedText = 'the connection to memcached is closed'

/** Connects at once. Never throws; errors are in `problem`, and `onChange` reports changes. */
export function createConnection(options: ConnectionOptions): Connection {
  const { backoff, breaker } = options
  const listeners: (() => void)[] = []
  let closed = false
  let retry: NodeJS.Timeout | undefined
  const connection: Connection & State = {
    healthy: false,
    usable: false,
    tried: false,
    problem: 'not connected to memcached yet',
    send(requests, count, onReplies) {
      if (connection.healthy) session.send(requests, count, onReplies)
      else onReplies([], connection.problem)
    },
    onChange: listener => listeners.push(listener),
    renew: reason => session.end(reason),
    async close() {
      if (!closed) {
        closed = true
        clearTimeout(retry)
        session.end(closedText)
        connection.problem = closedText
      }
      await session.closed
    },
  }
  let session: Session = open()

  function open(): Session {
    return openSession(options, {
      onServing() {
        backoff.reset()
        use()
        change(true)
      },
      onSilence(problem) {
        breaker.open(problem)
        stopUsing(problem)
      },
      onSign() {
        breaker.close('memcached answers again')
        use()
      },
      onEnd(reason) {
        breaker.close(reason)
        stopUsing(reason)
        if (!closed) retry = setTimeout(reopen, backoff.nextMs())
        change(false)
      },
    })
  }

  function use(): void {
    connection.usable = true
    connection.problem = lostText
  }

  function stopUsing(problem: string): void {
    connection.usable = false
    connection.problem = problem
  }

  function reopen(): void {
    session = open()
  }

  function change(next: boolean): void {
    if (connection.healthy === next && connection.tried) return
    connection.healthy = next
    connection.tried = true
    for (const listener of listeners) listener()
  }

  return connection
}
