import { setTimeout as pause } from 'node:timers/promises'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { isRefused, type Refused } from '../../domain/refusals.ts'
import { type Storage, StorageError, type Tx } from '../storage.ts'
import type { Once } from './answers.ts'
import { isOvertaken } from './idempotency-keys.ts'

/** Rolls back a transaction and carries its outcome. */
export class Unkept extends Error {
  readonly outcome: Once | Refused

  constructor(outcome: Once | Refused) {
    super('the answer is not kept')
    this.outcome = outcome
  }
}

export interface CommitSearch {
  readonly storage: Storage
  readonly clock: Clock
  /** Uniform in [0, 1); spreads waits. */
  readonly random: () => number
  /** The longest search for the outcome of a lost commit. */
  readonly resolveMs: number
}

/**
 * Runs the step in a transaction and repeats it until its outcome is certain: a commit of unknown outcome is
 * checked again.
 *
 * @throws StorageError `commit-unknown` if the outcome cannot be found out in time; or the step's error
 */
export async function untilCertain(
  { storage, clock, random, resolveMs }: CommitSearch,
  step: (tx: Tx) => Promise<Once | Refused>,
): Promise<Once | Refused> {
  const deadlineMs = clock.monotonicMs() + resolveMs
  const backoff = createBackoff({ initialMs: 10, maxMs: 500, factor: 2, jitter: 0.5, random })
  let unknown: StorageError | undefined
  for (;;) {
    const outcome = await settleStep(() => storage.transaction(step), unknown)
    if (!(outcome instanceof Error)) {
      // The transaction of the lost commit may still hold the key.
      if (unknown === undefined || isRefused(outcome) || outcome.kind !== 'in-progress') return outcome
    } else if (isUnknownCommit(outcome)) unknown = outcome
    if (clock.monotonicMs() > deadlineMs) throw unknown ?? outcome
    await pause(backoff.nextMs())
  }
}

/** Runs a step that may run twice, and repeats it once after a commit of unknown outcome. */
export async function untilKnown<T>(step: () => Promise<T>): Promise<T> {
  try {
    return await step()
  } catch (error) {
    if (!isUnknownCommit(error)) throw error
    return step()
  }
}

/** Returns the outcome of a transaction that was rolled back with `Unkept`. */
export async function unlessUnkept<T>(step: () => Promise<T>): Promise<T | Once | Refused> {
  try {
    return await step()
  } catch (error) {
    if (error instanceof Unkept) return error.outcome
    throw error
  }
}

/** Returns an answer, or the error after which the step is repeated. Rethrows all other errors. */
async function settleStep<T>(
  step: () => Promise<T>,
  unknown: StorageError | undefined,
): Promise<T | Once | Refused | StorageError> {
  try {
    return await unlessUnkept(step)
  } catch (error) {
    // Another transaction saved an answer after the read. The repeated step finds it.
    if (isUnknownCommit(error) || (error instanceof StorageError && isOvertaken(error))) return error
    // While the outcome of the first commit is unknown, no other error may be returned.
    if (unknown !== undefined && error instanceof StorageError && error.code === 'unavailable') return unknown
    throw error
  }
}

export function isUnknownCommit(error: unknown): error is StorageError {
  return error instanceof StorageError && error.code === 'commit-unknown'
}
