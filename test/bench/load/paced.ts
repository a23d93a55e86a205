import { evenSchedule } from './schedule.ts'
import { startTicker } from './ticker.ts'

/**
 * The shortest time between two ticks. A tick wakes two threads, so shorter intervals would fill the core.
 */
const leastMs = 0.5

/** Calls back for each message when it is due, evenly, for the duration, but at least once. */
export async function paced(
  messagesPerSecond: number,
  durationMs: number,
  send: (message: number, dueMs: number) => void,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const { dueMs } = evenSchedule(messagesPerSecond, durationMs, 1)
  let message = 0
  let startedMs = Number.POSITIVE_INFINITY
  const ticker = await startTicker(dueMs, leastMs, () => {
    const nowMs = performance.now()
    for (; message < dueMs.length; message++) {
      const atMs = startedMs + (dueMs[message] ?? 0)
      if (atMs > nowMs) return
      send(message, atMs)
    }
    resolve()
  })
  startedMs = ticker.start()
  await promise
  ticker.stop()
}
