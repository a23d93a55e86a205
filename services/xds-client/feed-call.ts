import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { findStatusCode, ReconnectingCall } from '@tollway/grpc/client/reconnecting-call.ts'
import { statusCodes } from '@tollway/grpc/status.ts'

export interface FeedCallTiming {
  /**
   * The delays after the end of a call. The first delay applies again after a call that lasted longer than
   * the longest delay.
   */
  readonly backoff: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
  /** The delay after the management server has answered UNIMPLEMENTED: it does not know the method. */
  readonly unsupportedMs: number
}

interface FeedCallOptions {
  /** Makes one call; settles when the call has ended. */
  readonly callOnce: (signal: AbortSignal) => Promise<void>
  /** The purpose of the call in the log: `report decisions`. */
  readonly what: string
  readonly timing: FeedCallTiming
  readonly clock: Clock
  /** Returns a number uniform in [0, 1). */
  readonly random: () => number
  readonly log: Log
}

/**
 * Creates a call over the connection of the feed. The call is made again whenever it ends; stop it before the
 * connection is closed. Only unexpected ends are warnings in the log: the feed logs failures of the
 * connection, and a server may lack the method.
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
 * Returns whether the end of a call deserves a warning. UNAVAILABLE (the server restarts) and UNIMPLEMENTED
 * (the server lacks the method) are expected.
 */
function isUnexpected(error: Error): boolean {
  const code = findStatusCode(error)
  return code !== undefined && code !== statusCodes.UNAVAILABLE && code !== statusCodes.UNIMPLEMENTED
}
