import type { Redis } from 'ioredis'

export interface SilenceWatch {
  stop(): void
}

export interface SilenceWatchOptions {
  /** A connection with a pending reply is cut after this time without data. */
  readonly stallMs: number
  readonly isReplyPending: () => boolean
}

/** The number of checks within the timeout. */
const checks = 4

/**
 * Cuts a connection with a pending reply whose other side is silent. Time is counted in checks: between two
 * checks the process reads the received data. A process that was paused, stopped or busy, sees a single late
 * check, and does not count its own pause as silence of Redis.
 */
export function watchSilence(redis: Redis, { stallMs, isReplyPending }: SilenceWatchOptions): SilenceWatch {
  let silentChecks = 0
  const restart = () => {
    silentChecks = 0
  }
  redis.on('connect', () => {
    restart()
    redis.stream.on('data', restart)
  })
  const timer = setInterval(() => {
    silentChecks = isReplyPending() ? silentChecks + 1 : 0
    // The first check may come just after the command was sent.
    if (silentChecks <= checks) return
    restart()
    redis.stream.destroy(new Error(`no reply for ${stallMs} ms`))
  }, stallMs / checks)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}
