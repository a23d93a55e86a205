import type { Clock } from '@tollway/chassis/clock.ts'
import { newId, type RandomBytes } from '../../domain/ids.ts'
import { isRefused, type Refused } from '../../domain/refusals.ts'
import type { Tx } from '../storage.ts'
import {
  type Answer,
  fingerprintsOf,
  keyIdOf,
  type Once,
  type OnceRequest,
  recall,
  retryAfterMs,
  save,
} from './answers.ts'
import {
  type CommitSearch,
  isUnknownCommit,
  Unkept,
  unlessUnkept,
  untilCertain,
  untilKnown,
} from './certain-commit.ts'
import { endLease, lockMarkedKey, markKey, removeMarker } from './idempotency-keys.ts'
import { canProtectSecret } from './sealed-answer.ts'

/** Work with an effect outside the database. The outside system recognises a repetition by its reference. */
export interface OutsideWork<P extends object, T> {
  /** Runs in the transaction that stores the marker, before the effect. A refusal leaves nothing stored. */
  readonly prepare: (tx: Tx, reference: string) => Promise<P | Refused>
  /** Performs the effect. May run more than once with the same reference. Must end before the lease does. */
  readonly outside: (reference: string, prepared: P) => Promise<T>
  /**
   * Stores the outcome, in the transaction that saves the answer. A refusal means that no answer is saved.
   */
  readonly settle: (tx: Tx, outcome: T) => Promise<Answer | Refused>
  /** Removes what `prepare` stored, in the transaction that frees the key after a refusal of `settle`. */
  readonly forget: (tx: Tx, reference: string) => Promise<void>
}

interface OutsideWorkOptions extends CommitSearch {
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  /** The time that an answer is kept. */
  readonly lifetimeMs: number
  /** The lease of a marker. */
  readonly leaseMs: number
}

/** See `Idempotency.runOnceOutside`. */
export async function runOutside<P extends object, T>(
  options: OutsideWorkOptions,
  request: OnceRequest,
  work: OutsideWork<P, T>,
): Promise<Once | Refused> {
  const { storage, clock, randomBytes } = options
  if (request.secret && !canProtectSecret(request.key)) return { kind: 'weak-key' }
  const keyId = keyIdOf(request)
  const owner = newId(clock.nowMs(), randomBytes)
  const claimed = await claim(options, request, owner, work.prepare)
  if ('row' in claimed) return recall(request, claimed.row)
  if (!('prepared' in claimed)) return claimed
  const { reference, prepared } = claimed
  try {
    const outcome = await work.outside(reference, prepared)
    const settle = (tx: Tx) => settleMarked(options, tx, request, owner, () => work.settle(tx, outcome))
    const once = await untilCertain(options, settle)
    if (isRefused(once)) {
      const free = (tx: Tx) => Promise.all([removeMarker(tx, keyId, owner), work.forget(tx, reference)])
      // If this fails, the lease expires, and a repetition gets the same refusal.
      await storage.transaction(free).catch(() => {})
    }
    return once
  } catch (error) {
    // If the lease cannot be ended now, it expires.
    const end = (tx: Tx) => endLease(tx, keyId, owner, clock.nowMs())
    if (!isUnknownCommit(error)) await storage.transaction(end).catch(() => {})
    throw error
  }
}

/** Returns the marker's reference and the result of `prepare`, the row in its place, or the refusal. */
async function claim<P extends object>(
  { storage, clock, randomBytes, lifetimeMs, leaseMs }: OutsideWorkOptions,
  request: OnceRequest,
  owner: string,
  prepare: OutsideWork<P, unknown>['prepare'],
) {
  const ownReference = newId(clock.nowMs(), randomBytes)
  const step = async (tx: Tx) => {
    const nowMs = clock.nowMs()
    const marker = { owner, reference: ownReference, leaseUntilMs: nowMs + leaseMs }
    const times = { nowMs, expiresMs: nowMs + lifetimeMs }
    const marked = await markKey(tx, keyIdOf(request), fingerprintsOf(request), marker, times)
    if ('row' in marked) return marked
    const prepared = await prepare(tx, marked.reference)
    if (isRefused(prepared)) throw new Unkept(prepared)
    return { reference: marked.reference, prepared }
  }
  // The marker names its owner, so a repeated claim finds the marker or stores it.
  return untilKnown(() => unlessUnkept(() => storage.transaction(step)))
}

/** Replaces the marker by the answer of `work`. Rolls back, and keeps the marker, if the work refuses. */
async function settleMarked(
  { clock, randomBytes, lifetimeMs }: OutsideWorkOptions,
  tx: Tx,
  request: OnceRequest,
  owner: string,
  work: () => Promise<Answer | Refused>,
): Promise<Once> {
  const row = await lockMarkedKey(tx, keyIdOf(request))
  // The lease has expired, and another process has finished, continued or cancelled it.
  if (row === undefined) return { kind: 'in-progress', retryAfterMs }
  if (row.state === 'done' || row.owner !== owner) return recall(request, row)
  const answer = await work()
  if (isRefused(answer)) throw new Unkept(answer)
  const nowMs = clock.nowMs()
  return save(tx, request, answer, {
    times: { nowMs, expiresMs: nowMs + lifetimeMs },
    randomBytes,
    owner,
  })
}
