import { setTimeout as pause } from 'node:timers/promises'

/**
 * Between two looks: at first the least, then a tenth of what was waited already, for looks cost time of
 * others.
 */
const leastPauseMs = 10
const mostPauseMs = 100

/** Waits until the condition answers something; after the deadline it fails with what was waited for. */
export async function waitFor<T>(
  what: string,
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
      const why = lastError === undefined ? '' : `; the last try failed: ${(lastError as Error).message}`
      throw new Error(`waited ${deadlineMs} ms in vain for ${what}${why}`)
    }
    const waitedMs = performance.now() - startMs
    await pause(Math.min(Math.max(leastPauseMs, waitedMs / 10), mostPauseMs))
  }
}

/** As `waitFor`, for tests that have replaced the timers: waits by turns of the event loop. */
export async function waitByTurns<T>(what: string, condition: () => T | undefined | false): Promise<T> {
  const endMs = performance.now() + 10_000
  for (;;) {
    const answer = condition()
    if (answer) return answer
    if (performance.now() > endMs) throw new Error(`waited 10 s in vain for ${what}`)
    await new Promise(setImmediate)
  }
}
