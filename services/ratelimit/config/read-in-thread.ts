import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { DomainTable } from '../rules/domain-table.ts'
import type { Reading, ReadingChanges, ReadOptions } from './reading.ts'

/** The data with which `reading-thread.ts` is started. */
export interface ThreadTask {
  readonly reading: Reading
  readonly options: Omit<ReadOptions, 'maxBytes'>
}

/** The first message that the thread posts. A table for each changed domain follows. */
export type ReadingResult = Omit<ReadingChanges, 'changed'>

/** The result of reading a configuration, with a compiled table for each domain that changed. */
export interface CompiledChanges extends ReadingResult {
  readonly tables: readonly DomainTable[]
}

/**
 * Reads, validates and compiles in a thread, which then ends and frees its memory. The tables are transferred
 * without a copy. Rejects when the thread fails, such as for lack of memory.
 */
export async function readInThread(task: ThreadTask): Promise<CompiledChanges> {
  const thread = new Worker(new URL('./reading-thread.ts', import.meta.url), { workerData: task })
  const tables: DomainTable[] = []
  let verdict: ReadingResult | undefined
  thread.on('message', (message: ReadingResult | DomainTable) => {
    if ('problems' in message) verdict = message
    else tables.push(message)
  })
  await once(thread, 'exit')
  if (verdict === undefined) throw new Error('the reading thread ended without a result')
  return { ...verdict, tables }
}
