import type { Backoff } from '@tollway/chassis/backoff.ts'
import type { RequestWriter } from './request-writer.ts'
import { lostText, type OnReplies, openSession, type Session, type SessionOptions } from './session.ts'

/** A connection to one Redis that is made again, for as long as it is not closed, whenever it is lost. */
export interface RespConnection {
  /**
   * Sends what was written, in one write, and clears the writer. While it is not healthy, `onReplies` is told
   * at once, from within the call. Nothing is kept for later and nothing is sent twice.
   */
  send(requests: RequestWriter, onReplies: OnReplies): void
  /** Whether Redis has answered a PING on the connection that there is. */
  readonly healthy: boolean
  /** Why it is not healthy: the text of Redis or of the network, without any secret. */
  readonly problem: string
  /** Called after each change of `healthy`. */
  onHealth(listener: (healthy: boolean) => void): void
  /** Ends it for good; who waits for replies is told so. Done when the socket is closed. */
  close(): Promise<void>
}

export interface RespConnectionOptions extends SessionOptions {
  /** The waits between tries; begins anew after a PONG. */
  readonly backoff: Backoff
}

const closedText = 'the connection to Redis is closed'

/** Connects at once. Only errors of the program throw; all else is told by `problem` and `onHealth`. */
export function createRespConnection(options: RespConnectionOptions): RespConnection {
  const { backoff } = options
  const listeners: ((healthy: boolean) => void)[] = []
  let healthy = false
  let closed = false
  let problem = 'not connected to Redis yet'
  let retry: NodeJS.Timeout | undefined
  let session = open()

  function open(): Session {
    return openSession(options, {
      onServing() {
        backoff.reset()
        problem = lostText
        become(true)
      },
      onEnd(reason) {
        problem = reason
        if (!closed) retry = setTimeout(reopen, backoff.nextMs())
        become(false)
      },
    })
  }

  function reopen(): void {
    session = open()
  }

  function become(next: boolean): void {
    if (healthy === next) return
    healthy = next
    for (const listener of listeners) listener(next)
  }

  return {
    send(requests, onReplies) {
      if (healthy) session.send(requests, onReplies)
      else {
        requests.clear(true)
        onReplies([], problem)
      }
    },
    get healthy() {
      return healthy
    },
    get problem() {
      return problem
    },
    onHealth: listener => listeners.push(listener),
    async close() {
      if (!closed) {
        closed = true
        clearTimeout(retry)
        problem = closedText
        session.end(closedText)
      }
      await session.closed
    },
  }
}
