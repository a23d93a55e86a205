import { createBackoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'

/** Does something again and again, never twice at once, and sooner when there is reason to. */
export interface RefreshSchedule {
  /**
   * Something has changed, or may have. The first call after a quiet period refreshes within `hurryMs`. The waits grow
   * to `maxHurryMs` while it is called after each refresh: what changes all the time must not be asked for all the time.
   */
  soon(): void
  close(): void
}

export interface RefreshOptions {
  /** Must not reject. */
  readonly refresh: () => Promise<void>
  /** Whether all is well, so that the next time may be the usual one. */
  readonly isSettled: () => boolean
  readonly everyMs: number
  /** The first wait while all is not well, and after `soon`. */
  readonly hurryMs: number
  /** What these waits grow to; they stay as they are when it is left out. */
  readonly maxHurryMs?: number
  /** Uniform in [0, 1). Each wait is between half and all of what it is, so that processes spread. */
  readonly random: () => number
  /** The system's when left out. */
  readonly clock?: Clock
}

/** Begins in the next turn. */
export function createRefreshSchedule(options: RefreshOptions): RefreshSchedule {
  const { refresh, isSettled, everyMs, hurryMs, maxHurryMs = hurryMs, random, clock = systemClock } = options
  const jitter = 0.5
  const hurry = createBackoff({ initialMs: hurryMs, maxMs: maxHurryMs, factor: 1.5, jitter, random })
  let timer: NodeJS.Timeout | undefined
  let plannedMs = Number.POSITIVE_INFINITY
  let running = false
  let wanted = false
  let closed = false

  function plan(waitMs: number): void {
    if (running || closed) return
    const atMs = clock.monotonicMs() + waitMs
    if (atMs >= plannedMs) return
    plannedMs = atMs
    clearTimeout(timer)
    timer = setTimeout(run, Math.max(0, atMs - clock.monotonicMs()))
  }

  function spread(waitMs: number): number {
    return waitMs * (1 - jitter * random())
  }

  async function run(): Promise<void> {
    running = true
    const wasWanted = wanted
    wanted = false
    await refresh()
    running = false
    plannedMs = Number.POSITIVE_INFINITY
    if (isSettled() && !wasWanted && !wanted) hurry.reset()
    plan(isSettled() && !wanted ? spread(everyMs) : hurry.nextMs())
  }

  plan(0)
  return {
    soon() {
      if (wanted) return
      wanted = true
      if (!running) plan(hurry.nextMs())
    },
    close() {
      closed = true
      clearTimeout(timer)
    },
  }
}
