import { type BackoffOptions, createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Log } from '@tollway/chassis/log/log.ts'
import { findStatusCode, ReconnectingCall } from '@tollway/grpc/client/reconnecting-call.ts'
import { statusCodes } from '@tollway/grpc/status.ts'

export interface FeedCallTiming {
  /**
   * The delays after the end of a call. They start again after a call that lasted longer than the longest
   * delay.
   */
  readonly backoff: Pick<BackoffOptions, 'initialMs' | 'maxMs'>
  /** The delay after a management server that does not know the method. */
  readonly unsupportedMs: number
}

interface FeedCallOptions {
  /** Makes one call, and ends with it. */
  readonly callOnce: (signal: AbortSignal) => Promise<void>
  /** The purpose of the call, for the log: `report decisions`. */
  readonly what: string
  readonly timing: FeedCallTiming
  readonly clock: Clock
  /** Uniform in [0, 1). */
  readonly random: () => number
  readonly log: Log
}

/**
 * Creates a call over the connection of the feed, which is made again whenever it ends. Stop it before the
 * connection is closed. The feed reports when the connection fails, and a server without the method is no
 * failure.
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

/** A restart of the server, and one without the method, are expected. */
function isUnexpected(error: Error): boolean {
  const code = findStatusCode(error)
  return code !== undefined && code !== statusCodes.UNAVAILABLE && code !== statusCodes.UNIMPLEMENTED
}
