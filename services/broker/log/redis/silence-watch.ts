import type { Redis } from 'ioredis'

export interface SilenceWatch {
  stop(): void
}

export interface SilenceWatchOptions {
  /** A connection that owes a reply, and brings nothing for so long, is cut. */
  readonly stallMs: number
  /** Whether a reply is owed now. */
  readonly owes: () => boolean
}

/** A silence is looked at so many times before it is too long. */
const looks = 4

/**
 * Cuts a connection whose other side is silent though it owes something. Time is counted in looks: between two
 * of them the process reads what has arrived. One that stood still itself, stopped or busy, sees a single late
 * look, and does not take its own pause for that of Redis.
 */
export function watchSilence(redis: Redis, { stallMs, owes }: SilenceWatchOptions): SilenceWatch {
  let silentLooks = 0
  const heard = () => {
    silentLooks = 0
  }
  redis.on('connect', () => {
    heard()
    redis.stream.on('data', heard)
  })
  const timer = setInterval(() => {
    silentLooks = owes() ? silentLooks + 1 : 0
    // The first look may come just after the reply was owed.
    if (silentLooks <= looks) return
    heard()
    redis.stream.destroy(new Error(`no reply for ${stallMs} ms`))
  }, stallMs / looks)
  timer.unref()
  return { stop: () => clearInterval(timer) }
}
