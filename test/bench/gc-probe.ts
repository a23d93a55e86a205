import { writeSync } from 'node:fs'
import { PerformanceObserver } from 'node:perf_hooks'

/**
 * Loaded before a measured server (`--import`): on SIGUSR2 it writes to standard error how many milliseconds
 * the garbage collector has stopped it since its start.
 */
let stoppedMs = 0
const observer = new PerformanceObserver(list => {
  for (const { duration } of list.getEntries()) stoppedMs += duration
})
observer.observe({ entryTypes: ['gc'] })
// Entries arrive in a later turn, so the answer waits for those of the last collection.
process.on('SIGUSR2', () => setImmediate(() => writeSync(2, `bench-gc ${stoppedMs.toFixed(3)}\n`)))
