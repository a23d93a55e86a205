import { writeSync } from 'node:fs'
import { PerformanceObserver } from 'node:perf_hooks'

/**
 * Loaded before a server that is measured (`--import`): on SIGUSR2 it says on standard error how many
 * milliseconds the garbage collector has stopped it since its start.
 */
let stoppedMs = 0
const observer = new PerformanceObserver(list => {
  for (const { duration } of list.getEntries()) stoppedMs += duration
})
observer.observe({ entryTypes: ['gc'] })
// Entries come in a later turn, so the answer waits for those of a collection that is just over.
process.on('SIGUSR2', () => setImmediate(() => writeSync(2, `bench-gc ${stoppedMs.toFixed(3)}\n`)))
