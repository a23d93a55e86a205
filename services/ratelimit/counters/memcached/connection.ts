import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { CircuitBreaker } from '../circuit-breaker.ts'
import { lostText, type OnReplies, openSession, type Session, type SessionOptions } from './session.ts'

/** A connection to one memcached that is made again, for as long as it is not closed, whenever it is lost. */
export interface Connection {
  /**
   * Sends so many requests in one write. While it is not healthy, `onReplies` is told at once, from within
   * the call. Nothing is kept for later and nothing is sent twice.
   */
  send(requests: string, count: number, onReplies: OnReplies): void
  /** Whether memcached has answered on the connection that there is. */
  readonly healthy: boolean
  /** Whether calls may be sent: it is healthy and its circuit breaker is closed. */
  readonly usable: boolean
  /** Whether at least one try has ended, well or not. */
  readonly tried: boolean
  /** Why it is not usable: the text of memcached or of the network. */
  readonly problem: string
  /** Called after each change of `healthy`, and when the first try has failed. */
  onChange(listener: () => void): void
  /** Gives up the connection that there is, for that reason, and makes a new one after a wait. */
  renew(reason: string): void
  /** Ends it for good; who waits for replies is told so. Done when the socket is closed. */
  close(): Promise<void>
}

export interface ConnectionOptions extends SessionOptions {
  /** The waits between tries; begins anew after a success. */
  readonly backoff: Backoff
  /** Opens and closes with the silences of memcached. */
  readonly breaker: CircuitBreaker
}

/** As only this file may change it. Accessors in its place would make V8 keep the object as a hash table. */
interface State {
  healthy: boolean
  usable: boolean
  tried: boolean
  problem: string
}

const closedText = 'the connection to memcached is closed'

/** Connects at once. Never throws; all that fails is told by `problem` and `onChange`. */
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
