import type { Clock } from '@tollway/chassis/clock.ts'
import { CountersError } from './counters.ts'

/** A call that is rejected when it is not settled by its deadline. */
export interface Waiting {
  readonly startedMs: number
  readonly reject: (error: CountersError) => void
  settled: boolean
  /** The call that was made after it; kept by `Deadlines`. */
  next: Waiting | undefined
}

/** Watches calls that all may take equally long: one timer, for the oldest of them, is enough. */
export interface Deadlines {
  watch(call: Waiting): void
  /** Calls were settled; lets go of those that nobody older waits with. */
  forgetSettled(): void
  /** Rejects all that wait, and stops. */
  rejectAll(problem: string): void
}

/**
 * Timers have a resolution of a millisecond, and one that is set for the deadline itself ends after it. A call whose
 * deadline is nearer than this is rejected, so that its caller has the answer by the deadline.
 */
const timerResolutionMs = 1

export function createDeadlines(deadlineMs: number, clock: Clock): Deadlines {
  let oldest: Waiting | undefined
  let newest: Waiting | undefined
  let timer: NodeJS.Timeout | undefined

  function forgetOldest(): void {
    if (oldest === undefined) return
    const { next } = oldest
    // A call that the collector holds for old must not hold all those that came after it.
    oldest.next = undefined
    oldest = next
    if (next === undefined) newest = undefined
  }

  function forgetSettled(): void {
    while (oldest?.settled) forgetOldest()
  }

  function rejectOldest(problem: string): void {
    if (oldest === undefined) return
    oldest.settled = true
    oldest.reject(new CountersError(problem))
  }

  function rejectLate(): void {
    timer = undefined
    const nowMs = clock.monotonicMs()
    for (forgetSettled(); oldest !== undefined; forgetSettled()) {
      const leftMs = oldest.startedMs + deadlineMs - nowMs
      if (leftMs > timerResolutionMs) {
        timer = setTimeout(readFirst, leftMs - timerResolutionMs)
        return
      }
      rejectOldest(`the backend did not answer within ${deadlineMs} ms`)
    }
  }

  /**
   * A turn in which the event loop was busy must not pass for a slow backend: what has arrived is read first.
   */
  function readFirst(): void {
    setImmediate(rejectLate)
  }

  return {
    watch(call) {
      if (newest === undefined) oldest = call
      else newest.next = call
      newest = call
      timer ??= setTimeout(readFirst, deadlineMs - timerResolutionMs)
    },
    forgetSettled,
    rejectAll(problem) {
      clearTimeout(timer)
      for (; oldest !== undefined; forgetOldest()) if (!oldest.settled) rejectOldest(problem)
    },
  }
}
