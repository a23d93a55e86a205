import { isDeepStrictEqual } from 'node:util'
import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { CircuitBreaker } from '../../connections/circuit-breaker.ts'
import type { Endpoint } from '../../connections/connect-socket.ts'
import type { PoolStats } from './pool-stats.ts'
import type { RequestWriter } from './request-writer.ts'
import { lostText, type OnReplies, openSession, type Session, type SessionOptions } from './session.ts'

/** A connection to one Redis, which reconnects after each loss until it is closed. */
export interface RespConnection {
  /**
   * Sends the written requests in one write, and clears the writer. While the connection is not healthy,
   * `onReplies` is called at once, from within the call. Nothing is kept for later, and nothing is sent
   * twice.
   */
  send(requests: RequestWriter, onReplies: OnReplies): void
  /** The address of Redis; undefined while it is unknown. */
  readonly endpoint: Endpoint | undefined
  /** Whether Redis has answered a PING on the current connection. */
  readonly healthy: boolean
  /** Whether calls may be sent: the connection is healthy and its circuit breaker is closed. */
  readonly usable: boolean
  /** Why it is not usable: the error of Redis or of the network, without secrets. */
  readonly problem: string
  /** Called after each change of `healthy`. */
  onHealth(listener: (healthy: boolean) => void): void
  /** Changes the address: a connection to another one ends, and the new one is opened at once. */
  moveTo(endpoint: Endpoint): void
  /** Ends the current connection for that reason, and opens a new one after a delay. */
  renew(reason: string): void
  /**
   * Closes the connection for good; requests without a reply get the reason. Resolves when the socket is
   * closed.
   */
  close(): Promise<void>
}

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

/** The mutable view for this file. Accessors would make V8 keep the object as a hash table. */
interface State {
  endpoint: Endpoint | undefined
  healthy: boolean
  usable: boolean
  problem: string
}

const closedText = 'the connection to Redis is closed'
const movedText = 'Redis is at another address now'

/**
 * Connects at once. Only programming errors throw; all others are in `problem`, and `onHealth` reports
 * changes.
 */
export function createRespConnection(options: RespConnectionOptions): RespConnection {
  const { backoff, stats, breaker } = options
  const listeners: ((healthy: boolean) => void)[] = []
  let closed = false
  let retry: NodeJS.Timeout | undefined
  let session: Session | undefined
  const connection: RespConnection & State = {
    endpoint: options.endpoint,
    healthy: false,
    usable: false,
    problem: 'not connected to Redis yet',
    send(requests, onReplies) {
      if (connection.healthy && session !== undefined) session.send(requests, onReplies)
      else {
        requests.clear(true)
        onReplies([], connection.problem)
      }
    },
    onHealth: listener => listeners.push(listener),
    moveTo(next) {
      if (closed || isDeepStrictEqual(connection.endpoint, next)) return
      connection.endpoint = next
      session?.end(movedText)
      clearTimeout(retry)
      backoff.reset()
      open()
    },
    renew: reason => session?.end(reason),
    async close() {
      if (!closed) {
        closed = true
        clearTimeout(retry)
        connection.problem = closedText
        session?.end(closedText)
      }
      await session?.closed
    },
  }

  function open(): void {
    const { endpoint } = connection
    if (endpoint === undefined) return
    session = openSession(
      { ...options, endpoint },
      {
        onServing() {
          backoff.reset()
          stats?.opened()
          use()
          become(true)
        },
        onSilence(problem) {
          breaker?.open(problem)
          stopUsing(problem)
        },
        onSign() {
          breaker?.close('Redis answers again')
          use()
        },
        onEnd(reason) {
          breaker?.close(reason)
          stopUsing(reason)
          if (!closed) retry = setTimeout(open, backoff.nextMs())
          if (connection.healthy) stats?.ended()
          become(false)
        },
      },
    )
  }

  function use(): void {
    connection.usable = true
    connection.problem = lostText
  }

  function stopUsing(problem: string): void {
    connection.usable = false
    connection.problem = problem
  }

  function become(next: boolean): void {
    if (connection.healthy === next) return
    connection.healthy = next
    for (const listener of listeners) listener(next)
  }

  open()
  return connection
}
