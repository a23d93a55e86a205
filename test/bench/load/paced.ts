import { startTicker } from './ticker.ts'

/** Between two looks at what is due. A look wakes two threads, so that shorter ones would fill the core. */
const tickMs = 0.5

/**
 * Calls back for each of so many messages a second when it is due, evenly, for so long; but once at least.
 */
export async function paced(
  messagesPerSecond: number,
  durationMs: number,
  send: (message: number, dueMs: number) => void,
): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>()
  const messages = Math.max(1, Math.floor((messagesPerSecond * durationMs) / 1000))
  let message = 0
  let startedMs = Number.POSITIVE_INFINITY
  const ticker = await startTicker(tickMs, () => {
    const nowMs = performance.now()
    for (; message < messages; message++) {
      const dueMs = startedMs + (message * 1000) / messagesPerSecond
      if (dueMs > nowMs) return
      send(message, dueMs)
    }
    resolve()
  })
  startedMs = performance.now()
  await promise
  ticker.stop()
}
