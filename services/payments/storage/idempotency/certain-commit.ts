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
  /** Returns a random number in [0, 1), which spreads the waits between attempts. */
  readonly random: () => number
  /** How long to try to find the outcome of a commit whose confirmation was lost. */
  readonly resolveMs: number
}

/**
 * Runs `step` in a transaction, which is rolled back if the step rejects. If the outcome of the commit is
 * unknown, runs the step again: it finds the stored answer, or takes effect now.
 *
 * @throws StorageError `commit-unknown` if the outcome is still unknown after `resolveMs`. Other errors of
 *   the step are rethrown
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
      // After a commit of unknown outcome, `in-progress` can mean the earlier transaction, which still has
      // the lock of the key.
      if (unknown === undefined || !result.ok || result.value.kind !== 'in-progress') return result
    } catch (error) {
      failure = repeatable(error, unknown)
      if (isUnknownCommit(failure)) unknown = failure
    }
    if (clock.monotonicMs() > deadlineMs) throw unknown ?? failure
    await pause(backoff.nextMs())
  }
}

/** Returns the error if the step is to be repeated after it. Rethrows all other errors. */
function repeatable(error: unknown, unknown: StorageError | undefined): StorageError {
  // Another transaction has saved an answer since this one read the row. The repeated step finds it.
  if (isUnknownCommit(error) || (error instanceof StorageError && isOvertaken(error))) return error
  // While the outcome of an earlier commit is unknown, a missing connection does not end the search.
  if (unknown !== undefined && error instanceof StorageError && error.code === 'unavailable') return unknown
  throw error
}

/** Repeats `step` once after a commit of unknown outcome. It must be harmless if it takes effect twice. */
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
