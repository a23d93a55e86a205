import { createBackoff } from '@tollway/chassis/backoff.ts'
import { type Clock, systemClock } from '@tollway/chassis/clock.ts'

/** Repeats a task, never twice at once, and earlier on request. */
export interface RefreshSchedule {
  /**
   * Requests a refresh. The first call after a quiet period refreshes within `urgentMs`. If it is called
   * again after each refresh, the delays grow to `maxUrgentMs`, so that constant changes do not cause
   * constant refreshes.
   */
  refreshSoon(): void
  close(): void
}

interface RefreshOptions {
  /** Must not reject. */
  readonly refresh: () => Promise<void>
  /** Returns true if the next refresh may wait for `everyMs`, and false if it is urgent. */
  readonly isSettled: () => boolean
  readonly everyMs: number
  /** The first delay while `isSettled` returns false, and after `refreshSoon`. */
  readonly urgentMs: number
  /** The delays that start with `urgentMs` grow to this one. Defaults to `urgentMs`. */
  readonly maxUrgentMs?: number
  /**
   * Returns random numbers, uniform in [0, 1). Each delay is between half of its value and all of it, so that
   * the refreshes of several processes spread.
   */
  readonly random: () => number
  /** Defaults to the system's clock. */
  readonly clock?: Clock
}

/** Starts a schedule, whose first refresh comes in the next turn of the event loop. */
export function createRefreshSchedule(options: RefreshOptions): RefreshSchedule {
  const {
    refresh,
    isSettled,
    everyMs,
    urgentMs,
    maxUrgentMs = urgentMs,
    random,
    clock = systemClock,
  } = options
  const jitter = 0.5
  const urgentBackoff = createBackoff({
    initialMs: urgentMs,
    maxMs: maxUrgentMs,
    factor: 1.5,
    jitter,
    random,
  })
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
    if (isSettled() && !wasWanted && !wanted) urgentBackoff.reset()
    plan(isSettled() && !wanted ? spread(everyMs) : urgentBackoff.nextMs())
  }

  plan(0)
  return {
    refreshSoon() {
      if (wanted) return
      wanted = true
      if (!running) plan(urgentBackoff.nextMs())
    },
    close() {
      closed = true
      clearTimeout(timer)
    },
  }
}
