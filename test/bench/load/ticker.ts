import { Worker } from 'node:worker_threads'

/**
 * Calls back about every `intervalMs`, which may be a fraction of a millisecond: a timer of the event loop
 * is up to a whole one late, which is more than the latencies that are to be measured. Resolves when it ticks.
 */
export async function startTicker(intervalMs: number, onTick: () => void): Promise<{ stop(): void }> {
  const state = new Int32Array(new SharedArrayBuffer(8))
  const thread = new Worker(new URL('ticker-thread.ts', import.meta.url), {
    workerData: { state, intervalMs },
  })
  await new Promise<void>((resolve, reject) => thread.once('message', resolve).once('error', reject))
  const take = () => {
    Atomics.store(state, ticked, 0)
    onTick()
  }
  thread.on('message', take)
  take()
  return {
    stop() {
      thread.removeAllListeners('message')
      Atomics.store(state, stopped, 1)
      Atomics.notify(state, stopped)
    },
  }
}

/** The places of the state that both threads share. */
export const stopped = 0
/** 1 while a tick waits to be taken, so that a busy event loop is not flooded. */
export const ticked = 1
