import { Worker } from 'node:worker_threads'

export interface Ticker {
  /** Starts the schedule; returns the start in the time of `performance.now()`. */
  start(): number
  stop(): void
}

/** The data of the ticker's thread. */
export interface TickerData {
  readonly state: Int32Array
  /** One number: the start of the schedule in the time of `monotonicMs`. */
  readonly startMs: Float64Array
  readonly dueMs: Float64Array
  readonly leastMs: number
}

/**
 * Calls back at each time of a schedule, but not more often than every `leastMs`: a call wakes two threads. A
 * timer of the event loop is up to a millisecond late, which is more than the measured latencies. Resolves
 * when the thread is ready.
 *
 * @param dueMs milliseconds after the start, ascending
 */
export async function startTicker(dueMs: Float64Array, leastMs: number, onTick: () => void): Promise<Ticker> {
  const state = new Int32Array(new SharedArrayBuffer(12))
  const startMs = new Float64Array(new SharedArrayBuffer(8))
  const workerData: TickerData = { state, startMs, dueMs, leastMs }
  const thread = new Worker(new URL('ticker-thread.ts', import.meta.url), { workerData })
  await new Promise<void>((resolve, reject) => thread.once('message', resolve).once('error', reject))
  thread.on('message', () => {
    Atomics.store(state, ticked, 0)
    onTick()
  })
  const wake = (place: number) => {
    Atomics.store(state, place, 1)
    Atomics.notify(state, place)
  }
  return {
    start() {
      // Read first, so that no call is due for the thread before it is due for the caller.
      const startedMs = performance.now()
      startMs[0] = monotonicMs()
      wake(started)
      return startedMs
    },
    stop() {
      thread.removeAllListeners('message')
      wake(stopped)
      wake(started)
    },
  }
}

/** A clock that the threads of a process share, unlike `performance.now()`. */
export function monotonicMs(): number {
  return Number(process.hrtime.bigint()) / 1e6
}

/** The indexes of the state that both threads share. */
export const stopped = 0
/** 1 while a tick waits to be processed, so that a busy event loop is not flooded. */
export const ticked = 1
export const started = 2
