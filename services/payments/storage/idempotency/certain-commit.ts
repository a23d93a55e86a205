import { setTimeout as pause } from 'node:timers/promises'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import type { Result } from '../../domain/rejections.ts'
import { type Storage, StorageError, type Tx, transact } from '../storage.ts'
import type { IdempotentResult } from './answers.ts'
import { isOvertaken } from './idempotency-keys.ts'

export interface CommitSearch {
  readonly storage: Storage
  readonly clock: Clock
  /** Uniform in [0, 1); spreads waits. */
  readonly random: () => number
  /** The longest search for the outcome of a lost commit. */
  readonly resolveMs: number
}

/**
 * Runs the step in a transaction, which is rolled back if the step rejects. Repeats it until its outcome is
 * certain: after a commit of unknown outcome, the repeated step finds what was stored.
 *
 * @throws StorageError `commit-unknown` if the outcome cannot be found out in time; or the step's error
 */
export async function retryUntilCommitKnown(
  { storage, clock, random, resolveMs }: CommitSearch,
  step: (tx: Tx) => Promise<Result<IdempotentResult>>,
): Promise<Result<IdempotentResult>> {
  const deadlineMs = clock.monotonicMs() + resolveMs
  const backoff = createBackoff({ initialMs: 10, maxMs: 500, factor: 2, jitter: 0.5, random })
  let unknown: StorageError | undefined
  for (;;) {
    let failure: StorageError | undefined
    try {
      const result = await transact(storage, step)
      // The transaction of the lost commit may still hold the key.
      if (unknown === undefined || !result.ok || result.value.kind !== 'in-progress') return result
    } catch (error) {
      failure = repeatable(error, unknown)
      if (isUnknownCommit(failure)) unknown = failure
    }
    if (clock.monotonicMs() > deadlineMs) throw unknown ?? failure
    await pause(backoff.nextMs())
  }
}

/** Returns an error after which the step is repeated. Rethrows all other errors. */
function repeatable(error: unknown, unknown: StorageError | undefined): StorageError {
  // Another transaction saved an answer after the read. The repeated step finds it.
  if (isUnknownCommit(error) || (error instanceof StorageError && isOvertaken(error))) return error
  // While the outcome of the first commit is unknown, no other error may be returned.
  if (unknown !== undefined && error instanceof StorageError && error.code === 'unavailable') return unknown
  throw error
}

/** Runs a step that may run twice, and repeats it once after a commit of unknown outcome. */
export async function retryUnknownCommit<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    if (!isUnknownCommit(error)) throw error
    return step()
  }
}

export function isUnknownCommit(error: unknown): error is StorageError {
  return error instanceof StorageError && error.code === 'commit-unknown'
}
