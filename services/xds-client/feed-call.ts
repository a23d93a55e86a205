import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { findStatusCode, ReconnectingCall } from '@tollway/grpc/client/reconnecting-call.ts'
import { statusCodes } from '@tollway/grpc/status.ts'
import type { FeedConnection } from './feed-connection.ts'

export interface FeedCallTiming {
  /**
   * The delays between calls. The first delay applies again after a call that lasted longer than the longest
   * delay.
   */
  readonly backoff: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
  /** The delay after UNIMPLEMENTED: the management server does not know the method. */
  readonly unsupportedMs: number
}

/** What every call over the connection of the feed needs. */
export interface FeedCallParts {
  /** The owner of the feed closes this connection; stop the call before. */
  readonly connection: FeedConnection
  readonly clock: Clock
  /** Returns a number uniform in [0, 1). */
  readonly random: () => number
  readonly log: Log
}

interface FeedCallOptions extends Omit<FeedCallParts, 'connection'> {
  /** Settles when the call has ended. */
  readonly callOnce: (signal: AbortSignal) => Promise<void>
  /** The purpose of the call for the log: `report decisions`. */
  readonly what: string
  readonly timing: FeedCallTiming
}

/**
 * A call over the connection of the feed, made again whenever it ends. Stop it before the connection is
 * closed. Only unexpected ends are logged as warnings: the feed logs failures of the connection, and a server
 * may lack the method.
 */
export function createFeedCall({
  callOnce,
  what,
  timing,
  clock,
  random,
  log,
}: FeedCallOptions): ReconnectingCall {
  const { initialMs, maxMs } = timing.backoff
  let warned = ''
  return new ReconnectingCall({
    callOnce,
    backoff: createBackoff({ initialMs, maxMs, factor: 2, jitter: 0.5, random }),
    establishedMs: maxMs,
    unimplementedMs: timing.unsupportedMs,
    clock,
    onState(state) {
      if (state.kind === 'working') return
      const { message: reason } = state.error
      const isNew = isUnexpected(state.error) && reason !== warned
      if (isNew) warned = reason
      log[isNew ? 'warn' : 'debug']('call management server failed', { what, reason })
    },
  })
}

/**
 * Returns whether the error is neither UNAVAILABLE (the server restarts) nor UNIMPLEMENTED (it lacks the
 * method).
 */
function isUnexpected(error: Error): boolean {
  const code = findStatusCode(error)
  return code !== undefined && code !== statusCodes.UNAVAILABLE && code !== statusCodes.UNIMPLEMENTED
}
