import { parentPort, workerData } from 'node:worker_threads'
import { stopped, ticked } from './ticker.ts'

/** The thread of ticker.ts: it sleeps with the precision that the event loop's timers do not have. */
const { state, intervalMs } = workerData as { readonly state: Int32Array; readonly intervalMs: number }

let nextMs = performance.now()
while (Atomics.load(state, stopped) === 0) {
  nextMs = Math.max(nextMs + intervalMs, performance.now())
  Atomics.wait(state, stopped, 0, nextMs - performance.now())
  if (Atomics.exchange(state, ticked, 1) === 0) parentPort?.postMessage(0)
}
