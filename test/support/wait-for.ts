import { setTimeout as pause } from 'node:timers/promises'

/**
 * The pause between two checks: first the minimum, then a tenth of the time that was waited already, since
 * checks take CPU time.
 */
const leastPauseMs = 10
const mostPauseMs = 100

/** The time for a program to start, while other tests run on the machine. */
export const startDeadlineMs = 60_000

/**
 * Waits until the condition returns a value; fails after the deadline with the description, of which a
 * function is called then.
 */
export async function waitFor<T>(
  what: string | (() => string),
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  deadlineMs = 10_000,
): Promise<T> {
  const startMs = performance.now()
  const endMs = startMs + deadlineMs
  let lastError: unknown
  for (;;) {
    try {
      const answer = await condition()
      if (answer) return answer
      lastError = undefined
    } catch (error) {
      lastError = error
    }
    if (performance.now() > endMs) {
      const why = lastError === undefined ? '' : `; the last attempt failed: ${(lastError as Error).message}`
      const described = typeof what === 'string' ? what : what()
      throw new Error(`timeout after ${deadlineMs} ms while waiting for ${described}${why}`)
    }
    const waitedMs = performance.now() - startMs
    await pause(Math.min(Math.max(leastPauseMs, waitedMs / 10), mostPauseMs))
  }
}

/** Does the same as `waitFor` for tests that have replaced the timers: waits by turns of the event loop. */
export async function waitByTurns<T>(what: string, condition: () => T | undefined | false): Promise<T> {
  const endMs = performance.now() + 10_000
  for (;;) {
    const answer = condition()
    if (answer) return answer
    if (performance.now() > endMs) throw new Error(`timeout after 10 s while waiting for ${what}`)
    await new Promise(setImmediate)
  }
}
