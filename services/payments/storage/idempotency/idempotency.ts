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
 * The state of a request. `resumable`: the request began, its outcome is not stored, and no process works on
 * it. `unknown`: the request never began, or left nothing.
 */
export type RequestState = IdempotentResult | { readonly kind: 'resumable' | 'unknown' }

interface IdempotencyOptions {
  readonly storage: Storage
  readonly clock: Clock
  /** Uniform in [0, 1); spreads waits. */
  readonly random: () => number
  readonly randomBytes: RandomBytes
  /** The time that an answer is kept; default 24 hours. */
  readonly lifetimeMs?: number
  /** The lease of a marker. */
  readonly leaseMs?: number
  /** The longest search for the outcome of a lost commit. */
  readonly resolveMs?: number
}

const defaultLifetimeMs = 24 * 60 * 60 * 1000
const defaultLeaseMs = 60_000
const defaultResolveMs = 10_000

/** Runs requests so that each takes effect once, however often it is repeated. */
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
   * Runs `work` and saves its answer in one transaction. A rejection stores nothing, and the key stays free.
   * When the connection is lost during the commit, finds out whether the commit succeeded, and answers as
   * usual.
   *
   * @throws StorageError `commit-unknown` when the outcome cannot be found out in time; the same request with
   *   the same key finds it out later. An error of `work` is rethrown, and nothing is stored.
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
   * Does the same as `runOnce`, for an effect outside the database. A marker with the reference is committed
   * first and stays until the outcome is stored or rejected. After a failure, the same request continues
   * under the same reference: at once after an error, after the lease when the process has crashed.
   */
  runOnceOutside<P extends object, T>(
    request: IdempotentRequest,
    work: OutsideWork<P, T>,
  ): Promise<Result<IdempotentResult>> {
    return runOutside(this.#options, request, work)
  }

  /** Returns the state of a request, without running it. */
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
