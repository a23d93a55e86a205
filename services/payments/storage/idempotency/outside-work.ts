import type { Clock } from '@tollway/chassis/clock.ts'
import { newId, type RandomBytes } from '../../domain/ids.ts'
import { accept, type Result } from '../../domain/rejections.ts'
import { type Tx, transact } from '../storage.ts'
import {
  type AnswerRecord,
  type IdempotentRequest,
  type IdempotentResult,
  replayAnswer,
  retryAfterMs,
  storeAnswer,
  toFingerprints,
  toKeyId,
} from './answers.ts'
import {
  type CommitSearch,
  isUnknownCommit,
  retryUnknownCommit,
  retryUntilCommitKnown,
} from './certain-commit.ts'
import { endLease, type KeyRow, lockMarkedKey, markKey, removeMarker } from './idempotency-keys.ts'
import { canProtectSecret } from './sealed-answer.ts'

/** Work with an effect in another system, which recognises a repetition by the reference. */
export interface OutsideWork<P extends object, T> {
  /** Runs in the transaction that stores the marker. A rejection rolls that transaction back. */
  readonly prepare: (tx: Tx, reference: string) => Promise<Result<P>>
  /** May run several times with the same reference. Must end before the lease of the marker. */
  readonly perform: (reference: string, prepared: P) => Promise<T>
  /** Runs in the transaction that saves the answer. After a rejection, the key is freed instead. */
  readonly store: (tx: Tx, outcome: T) => Promise<Result<AnswerRecord>>
  /** Removes what `prepare` stored, in the transaction that frees the key after a rejection of `store`. */
  readonly discard: (tx: Tx, reference: string) => Promise<void>
}

interface OutsideWorkOptions extends CommitSearch {
  readonly clock: Clock
  readonly randomBytes: RandomBytes
  readonly lifetimeMs: number
  readonly leaseMs: number
}

export async function runOutside<P extends object, T>(
  options: OutsideWorkOptions,
  request: IdempotentRequest,
  work: OutsideWork<P, T>,
): Promise<Result<IdempotentResult>> {
  const { storage, clock, randomBytes } = options
  if (request.secret && !canProtectSecret(request.key)) return accept({ kind: 'weak-key' })
  const keyId = toKeyId(request)
  const owner = newId(clock.nowMs(), randomBytes)
  const claimed = await claim(options, request, owner, work.prepare)
  if (!claimed.ok) return claimed
  if (claimed.value.kind === 'taken') return accept(replayAnswer(request, claimed.value.row))
  const { reference, prepared } = claimed.value
  try {
    const outcome = await work.perform(reference, prepared)
    const store = (tx: Tx) => replaceMarker(options, tx, request, owner, () => work.store(tx, outcome))
    const result = await retryUntilCommitKnown(options, store)
    if (!result.ok) {
      const free = (tx: Tx) => Promise.all([removeMarker(tx, keyId, owner), work.discard(tx, reference)])
      // A failure can be ignored: the lease expires, and a repetition gets the same rejection.
      await storage.transaction(free).catch(() => {})
    }
    return result
  } catch (error) {
    // A failure can be ignored: the lease expires by itself.
    const end = (tx: Tx) => endLease(tx, keyId, owner, clock.nowMs())
    if (!isUnknownCommit(error)) await storage.transaction(end).catch(() => {})
    throw error
  }
}

/** `marked`: this request has stored its marker. `taken`: another request has the key, with this row. */
type Claim<P> =
  | { readonly kind: 'marked'; readonly reference: string; readonly prepared: P }
  | { readonly kind: 'taken'; readonly row: KeyRow }

async function claim<P extends object>(
  { storage, clock, randomBytes, lifetimeMs, leaseMs }: OutsideWorkOptions,
  request: IdempotentRequest,
  owner: string,
  prepare: OutsideWork<P, unknown>['prepare'],
): Promise<Result<Claim<P>>> {
  const ownReference = newId(clock.nowMs(), randomBytes)
  const step = async (tx: Tx): Promise<Result<Claim<P>>> => {
    const nowMs = clock.nowMs()
    const marker = { owner, reference: ownReference, leaseUntilMs: nowMs + leaseMs }
    const times = { nowMs, expiresMs: nowMs + lifetimeMs }
    const marked = await markKey(tx, toKeyId(request), toFingerprints(request), marker, times)
    if ('row' in marked) return accept({ kind: 'taken', row: marked.row })
    const { reference } = marked
    const prepared = await prepare(tx, reference)
    return prepared.ok ? accept({ kind: 'marked', reference, prepared: prepared.value }) : prepared
  }
  // The step may be repeated, because `markKey` recognises a marker of the same owner.
  return retryUnknownCommit(() => transact(storage, step))
}

/** Replaces the marker with the answer of `work`. If the work rejects, the marker stays. */
async function replaceMarker(
  { clock, randomBytes, lifetimeMs }: OutsideWorkOptions,
  tx: Tx,
  request: IdempotentRequest,
  owner: string,
  work: () => Promise<Result<AnswerRecord>>,
): Promise<Result<IdempotentResult>> {
  const row = await lockMarkedKey(tx, toKeyId(request))
  // In these two cases the lease has expired, and another process has cancelled, finished or continued the
  // request.
  if (row === undefined) return accept({ kind: 'in-progress', retryAfterMs })
  if (row.state === 'done' || row.owner !== owner) return accept(replayAnswer(request, row))
  const answer = await work()
  if (!answer.ok) return answer
  const nowMs = clock.nowMs()
  const times = { nowMs, expiresMs: nowMs + lifetimeMs }
  return accept(storeAnswer(tx, request, answer.value, { times, randomBytes, owner }))
}
