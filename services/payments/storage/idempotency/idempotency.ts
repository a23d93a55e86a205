import type { Clock } from '@tollway/chassis/clock.ts'
import { newId, type RandomBytes } from '../../domain/ids.ts'
import { accept, type Result } from '../../domain/rejections.ts'
import { type Storage, type Tx, transact } from '../storage.ts'
import {
  type AnswerRecord,
  type IdempotentRequest,
  type IdempotentResult,
  replayAnswer,
  retryAfterMs,
  storeAnswer,
  toFingerprints,
  toKeyId,
  toLockId,
} from './answers.ts'
import { isUnknownCommit, retryUnknownCommit, retryUntilCommitKnown } from './certain-commit.ts'
import {
  endLease,
  findKey,
  type KeyRow,
  lockKey,
  lockMarkedKey,
  markKey,
  removeMarker,
} from './idempotency-keys.ts'
import { canProtectSecret } from './sealed-answer.ts'

/**
 * The state of a request. `resumable`: the request has begun, its outcome is not stored, and no process works
 * on it. `unknown`: nothing is stored of the request.
 */
export type RequestState = IdempotentResult | { readonly kind: 'resumable' | 'unknown' }

/** Work with an effect in another system, which recognises a repetition by the reference. */
export interface OutsideWork<P extends object, T> {
  /** Runs in the transaction that stores the marker. A rejection rolls that transaction back. */
  readonly prepare: (tx: Tx, reference: string) => Promise<Result<P>>
  /**
   * Does the work. It may run several times with the same reference, and must end before the lease of the
   * marker.
   */
  readonly perform: (reference: string, prepared: P) => Promise<T>
  /** Runs in the transaction that saves the answer. After a rejection, the key is freed instead. */
  readonly store: (tx: Tx, outcome: T) => Promise<Result<AnswerRecord>>
  /** Removes what `prepare` stored, in the transaction that frees the key after a rejection of `store`. */
  readonly discard: (tx: Tx, reference: string) => Promise<void>
}

/** `marked`: this request has stored its marker. `taken`: another request has the key, with this row. */
type Claim<P> =
  | { readonly kind: 'marked'; readonly reference: string; readonly prepared: P }
  | { readonly kind: 'taken'; readonly row: KeyRow }

interface IdempotencyOptions {
  readonly storage: Storage
  readonly clock: Clock
  /** Returns a random number in [0, 1), which spreads the waits between attempts. */
  readonly random: () => number
  readonly randomBytes: RandomBytes
  /** How long an answer is stored; by default 24 hours. */
  readonly lifetimeMs?: number
  /** How long a marker reserves the key for one process; by default 1 minute. */
  readonly leaseMs?: number
  /** How long to try to find the outcome of a commit whose confirmation was lost; by default 10 seconds. */
  readonly resolveMs?: number
}

const defaultLifetimeMs = 24 * 60 * 60 * 1000
const defaultLeaseMs = 60_000
const defaultResolveMs = 10_000

/** Runs requests with an Idempotency-Key, so that each takes effect once, however often it is repeated. */
export class Idempotency {
  readonly #options: Required<IdempotencyOptions>

  constructor({
    lifetimeMs = defaultLifetimeMs,
    leaseMs = defaultLeaseMs,
    resolveMs = defaultResolveMs,
    ...options
  }: IdempotencyOptions) {
    this.#options = { ...options, lifetimeMs, leaseMs, resolveMs }
  }

  /**
   * Runs `work` and saves the answer in one transaction. A rejection stores nothing, and the key can be used
   * again. If the connection is lost during the commit, finds out whether the commit succeeded, and returns
   * the answer.
   *
   * @throws StorageError `commit-unknown` if the outcome of the commit is still unknown after `resolveMs`; a
   *   repetition of the request finds it later. An error of `work` is rethrown, and nothing is stored.
   */
  runOnce(
    request: IdempotentRequest,
    work: (tx: Tx) => Promise<Result<AnswerRecord>>,
  ): Promise<Result<IdempotentResult>> {
    return retryUntilCommitKnown(this.#options, tx => this.#attempt(tx, request, work))
  }

  async #attempt(
    tx: Tx,
    request: IdempotentRequest,
    work: (tx: Tx) => Promise<Result<AnswerRecord>>,
  ): Promise<Result<IdempotentResult>> {
    if (request.secret && !canProtectSecret(request.key)) return accept({ kind: 'weak-key' })
    const keyId = toKeyId(request)
    const found = await lockKey(tx, toLockId(keyId), keyId, this.#options.clock.nowMs())
    if (found === 'locked-by-other') return accept({ kind: 'in-progress', retryAfterMs })
    if (found !== undefined) return accept(replayAnswer(request, found))
    const answer = await work(tx)
    return answer.ok ? accept(this.#store(tx, request, answer.value, null)) : answer
  }

  /**
   * Does what `runOnce` does, for an effect outside the database. First commits a marker with a reference,
   * which stays until the outcome is stored or rejected. After a failure, a repetition of the request
   * continues with the same reference: at once after an error, and after `leaseMs` if the process crashed.
   */
  async runOnceOutside<P extends object, T>(
    request: IdempotentRequest,
    work: OutsideWork<P, T>,
  ): Promise<Result<IdempotentResult>> {
    const { storage, clock, randomBytes } = this.#options
    if (request.secret && !canProtectSecret(request.key)) return accept({ kind: 'weak-key' })
    const keyId = toKeyId(request)
    const owner = newId(clock.nowMs(), randomBytes)
    const claimed = await this.#claim(request, owner, work.prepare)
    if (!claimed.ok) return claimed
    if (claimed.value.kind === 'taken') return accept(replayAnswer(request, claimed.value.row))
    const { reference, prepared } = claimed.value
    try {
      const outcome = await work.perform(reference, prepared)
      const store = (tx: Tx) => this.#replaceMarker(tx, request, owner, () => work.store(tx, outcome))
      const result = await retryUntilCommitKnown(this.#options, store)
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

  async #claim<P extends object>(
    request: IdempotentRequest,
    owner: string,
    prepare: OutsideWork<P, unknown>['prepare'],
  ): Promise<Result<Claim<P>>> {
    const { storage, clock, randomBytes, leaseMs } = this.#options
    const ownReference = newId(clock.nowMs(), randomBytes)
    const step = async (tx: Tx): Promise<Result<Claim<P>>> => {
      const times = this.#times()
      const marker = { owner, reference: ownReference, leaseUntilMs: times.nowMs + leaseMs }
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
  async #replaceMarker(
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
    return answer.ok ? accept(this.#store(tx, request, answer.value, owner)) : answer
  }

  #store(tx: Tx, request: IdempotentRequest, answer: AnswerRecord, owner: string | null): IdempotentResult {
    const { randomBytes } = this.#options
    return storeAnswer(tx, request, answer, { times: this.#times(), randomBytes, owner })
  }

  #times() {
    const nowMs = this.#options.clock.nowMs()
    return { nowMs, expiresMs: nowMs + this.#options.lifetimeMs }
  }

  /** Returns the state of a request without running it. */
  async find(request: IdempotentRequest): Promise<RequestState> {
    const { storage, clock } = this.#options
    const row = await storage.read(tx => findKey(tx, toKeyId(request)))
    const nowMs = clock.nowMs()
    const isExpired = row?.state === 'done' && row.expires.getTime() <= nowMs
    if (row === undefined || isExpired) return { kind: 'unknown' }
    const result = replayAnswer(request, row)
    const isLeased = row.lease_until !== null && row.lease_until.getTime() > nowMs
    return result.kind === 'in-progress' && !isLeased ? { kind: 'resumable' } : result
  }
}
