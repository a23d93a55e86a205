import { setTimeout as pause } from 'node:timers/promises'

/** Waits until the condition answers something; after the deadline it fails with what was waited for. */
export async function waitFor<T>(
  what: string,
  condition: () => T | undefined | false | Promise<T | undefined | false>,
  deadlineMs = 10_000,
): Promise<T> {
  const endMs = performance.now() + deadlineMs
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
    await pause(10)
  }
}
