import { isDeepStrictEqual } from 'node:util'
import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { CircuitBreaker } from '../circuit-breaker.ts'
import type { Endpoint } from '../connect-socket.ts'
import type { PoolStats } from './pool-stats.ts'
import type { RequestWriter } from './request-writer.ts'
import { lostText, type OnReplies, openSession, type Session, type SessionOptions } from './session.ts'

/** A connection to one Redis that is made again, for as long as it is not closed, whenever it is lost. */
export interface RespConnection {
  /**
   * Sends what was written, in one write, and clears the writer. While it is not healthy, `onReplies` is told
   * at once, from within the call. Nothing is kept for later and nothing is sent twice.
   */
  send(requests: RequestWriter, onReplies: OnReplies): void
  /** Where Redis is; undefined while nobody has said so. */
  readonly endpoint: Endpoint | undefined
  /** Whether Redis has answered a PING on the connection that there is. */
  readonly healthy: boolean
  /** Whether calls may be sent: it is healthy and its circuit breaker is closed. */
  readonly usable: boolean
  /** Why it is not usable: the text of Redis or of the network, without any secret. */
  readonly problem: string
  /** Called after each change of `healthy`. */
  onHealth(listener: (healthy: boolean) => void): void
  /** From now on Redis is there: a connection to another place ends, and the new one is made at once. */
  moveTo(endpoint: Endpoint): void
  /** Gives up the connection that there is, for that reason, and makes a new one after a wait. */
  renew(reason: string): void
  /** Ends it for good; who waits for replies is told so. Done when the socket is closed. */
  close(): Promise<void>
}

export interface RespConnectionOptions extends Omit<SessionOptions, 'endpoint'> {
  /** Nothing is connected before `moveTo` when it is left out. */
  readonly endpoint?: Endpoint
  /** The waits between tries; begins anew after a PONG. */
  readonly backoff: Backoff
  /** Counts the connections that got their PONG. */
  readonly stats?: PoolStats
  /** Opens and closes with the silences of Redis; none when left out. */
  readonly breaker?: CircuitBreaker
}

/** As only this file may change it. Accessors in its place would make V8 keep the object as a hash table. */
interface State {
  endpoint: Endpoint | undefined
  healthy: boolean
  usable: boolean
  problem: string
}

const closedText = 'the connection to Redis is closed'
const movedText = 'Redis is at another address now'

/** Connects at once. Only errors of the program throw; all else is told by `problem` and `onHealth`. */
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
