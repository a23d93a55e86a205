import type { Clock } from '@tollway/chassis/clock.ts'
import { CountersError } from '../counters.ts'

/** A call that is rejected if it is not settled by its deadline. */
export interface Waiting {
  readonly startedMs: number
  readonly reject: (error: CountersError) => void
  settled: boolean
  /** The call that was made next; maintained by `Deadlines`. */
  next: Waiting | undefined
}

/** Watches calls that all have the same timeout. One timer, for the oldest call, is enough. */
export interface Deadlines {
  watch(call: Waiting): void
  /** Drops the settled calls that are older than every call that waits. */
  forgetSettled(): void
  /** Rejects all calls that wait, and stops. */
  rejectAll(problem: string): void
}

/**
 * Timers have a resolution of a millisecond, and one that is set for the deadline itself ends after it. A
 * call whose deadline is nearer than this is rejected, so that its caller has the answer by the deadline.
 */
const timerResolutionMs = 1

export function createDeadlines(deadlineMs: number, clock: Clock): Deadlines {
  let oldest: Waiting | undefined
  let newest: Waiting | undefined
  let timer: NodeJS.Timeout | undefined

  function forgetOldest(): void {
    if (oldest === undefined) return
    const { next } = oldest
    // Unlinks the call, so that one call in V8's old generation does not keep all later calls alive.
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
   * Reads what has arrived before it rejects: a long turn of the event loop must not be taken for a slow
   * backend.
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
