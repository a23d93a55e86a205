import { getPriority, setPriority } from 'node:os'
import { parentPort, workerData } from 'node:worker_threads'
import { compileDomain } from '../rules/compile-domain.ts'
import type { ReadingResult, ThreadTask } from './read-in-thread.ts'
import { readChanges } from './reading.ts'

/** The thread of `readInThread`: posts a `ReadingResult`, and then the table of each changed domain. */
const { reading, options } = workerData as ThreadTask

/** Added to the niceness, so that decisions have priority; the thread still gets a quarter of a busy core. */
const nicer = 5
const maxNice = 19

// Only Linux has a priority for each thread. The first load keeps its priority, because there are no
// decisions yet.
if (process.platform === 'linux' && options.inForce.length > 0) {
  setPriority(0, Math.min(maxNice, getPriority(0) + nicer))
}

const changes = await readChanges(reading, { ...options, maxBytes: Number.POSITIVE_INFINITY })
if (changes === undefined) throw new Error('unreachable: every size is allowed')
const { problems, warnings, parts, changed } = changes
parentPort?.postMessage({ problems, warnings, parts } satisfies ReadingResult)
if (problems.length === 0) {
  for (const [domain, configs] of changed) {
    const table = compileDomain(domain, configs)
    const { records, slots, patterns, texts } = table
    parentPort?.postMessage(table, [records.buffer, slots.buffer, patterns.buffer, texts.buffer] as never)
  }
}
