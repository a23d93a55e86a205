import { parentPort, workerData } from 'node:worker_threads'
import { monotonicMs, started, stopped, type TickerData, ticked } from './ticker.ts'

/** The thread of ticker.ts: it sleeps more precisely than the timers of the event loop. */
const { state, startMs, dueMs, leastMs } = workerData as TickerData

parentPort?.postMessage(0)
Atomics.wait(state, started, 0)
const zeroMs = startMs[0] ?? 0
let next = 0
let wakeMs = 0
while (next < dueMs.length && Atomics.load(state, stopped) === 0) {
  wakeMs = Math.max(wakeMs, zeroMs + (dueMs[next] ?? 0))
  const leftMs = wakeMs - monotonicMs()
  if (leftMs > 0) Atomics.wait(state, stopped, 0, leftMs)
  // Read before the tick: later calls must get another tick.
  const nowMs = monotonicMs()
  if (Atomics.exchange(state, ticked, 1) === 0) parentPort?.postMessage(0)
  while (next < dueMs.length && zeroMs + (dueMs[next] ?? 0) <= nowMs) next += 1
  wakeMs = nowMs + leastMs
}
