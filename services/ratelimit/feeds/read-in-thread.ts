import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Problem } from '../rules/config.ts'
import type { DomainTable } from '../rules/domain-table.ts'
import type { ValidateOptions } from '../rules/validate.ts'
import type { KnownPart } from './read-changes.ts'
import type { Reading } from './reading.ts'

/** The input of the thread. */
export interface ThreadTask {
  readonly reading: Reading
  /** The known hashes of the files' contents, in order; empty for a response. */
  readonly fileHashes: readonly (string | undefined)[]
  readonly options: ValidateOptions & { readonly inForce: readonly KnownPart[] }
}

/** The first message of the thread. */
export interface Verdict {
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  readonly parts: readonly KnownPart[]
}

/** The result for the domains that changed. */
export interface CompiledChanges extends Verdict {
  readonly tables: readonly DomainTable[]
}

/**
 * Reads, validates and compiles in a thread, which then ends and frees its memory. The tables are transferred
 * without a copy. Rejects when the thread fails, such as for lack of memory.
 */
export async function readInThread(task: ThreadTask): Promise<CompiledChanges> {
  const thread = new Worker(new URL('./reading-thread.ts', import.meta.url), { workerData: task })
  const tables: DomainTable[] = []
  let verdict: Verdict | undefined
  thread.on('message', (message: Verdict | DomainTable) => {
    if ('problems' in message) verdict = message
    else tables.push(message)
  })
  await once(thread, 'exit')
  if (verdict === undefined) throw new Error('the reading thread ended without a result')
  return { ...verdict, tables }
}
