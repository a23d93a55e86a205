import { once } from 'node:events'
import { Worker } from 'node:worker_threads'
import type { Problem } from '../rules/config.ts'
import type { DomainTable } from '../rules/domain-table.ts'
import type { ValidateOptions } from '../rules/validate.ts'
import type { KnownPart } from './read-changes.ts'
import type { Reading } from './reading.ts'

/** What a thread is started with. */
export interface ThreadTask {
  readonly reading: Reading
  /** Of the reading's parts, as far as they are known. */
  readonly hashes: readonly (string | undefined)[]
  readonly options: ValidateOptions & { readonly inForce: readonly KnownPart[] }
}

/** What the thread tells first. */
export interface Verdict {
  readonly problems: readonly Problem[]
  readonly warnings: readonly Problem[]
  readonly parts: readonly KnownPart[]
}

/** Of the domains that changed. */
export interface CompiledChanges extends Verdict {
  readonly tables: readonly DomainTable[]
}

/**
 * Reads, judges and compiles in a thread of its own, which then ends and gives back its memory. The tables come
 * without a copy. Rejects when the thread fails, as for want of memory.
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
