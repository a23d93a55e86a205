import type { Clock } from '@tollway/chassis/clock.ts'
import type { RandomBytes } from '../../domain/ids.ts'
import { accept, type Result } from '../../domain/rejections.ts'
import type { Storage, Tx } from '../storage.ts'
import {
  type AnswerRecord,
  type IdempotentRequest,
  type IdempotentResult,
  replayAnswer,
  retryAfterMs,
  storeAnswer,
  toKeyId,
  toLockId,
} from './answers.ts'
import { retryUntilCommitKnown } from './certain-commit.ts'
import { findKey, lockKey } from './idempotency-keys.ts'
import { type OutsideWork, runOutside } from './outside-work.ts'
import { canProtectSecret } from './sealed-answer.ts'

/**
 * The state of a request. `resumable`: the request has begun, its outcome is not stored, and no process works
 * on it. `unknown`: nothing is stored of the request.
 */
export type RequestState = IdempotentResult | { readonly kind: 'resumable' | 'unknown' }

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
    const { clock, randomBytes, lifetimeMs } = this.#options
    const keyId = toKeyId(request)
    const found = await lockKey(tx, toLockId(keyId), keyId, clock.nowMs())
    if (found === 'locked-by-other') return accept({ kind: 'in-progress', retryAfterMs })
    if (found !== undefined) return accept(replayAnswer(request, found))
    const answer = await work(tx)
    if (!answer.ok) return answer
    const nowMs = clock.nowMs()
    const times = { nowMs, expiresMs: nowMs + lifetimeMs }
    return accept(storeAnswer(tx, request, answer.value, { times, randomBytes, owner: null }))
  }

  /**
   * Does what `runOnce` does, for an effect outside the database. First commits a marker with a reference,
   * which stays until the outcome is stored or rejected. After a failure, a repetition of the request
   * continues with the same reference: at once after an error, and after `leaseMs` if the process crashed.
   */
  runOnceOutside<P extends object, T>(
    request: IdempotentRequest,
    work: OutsideWork<P, T>,
  ): Promise<Result<IdempotentResult>> {
    return runOutside(this.#options, request, work)
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
