import type { Clock } from '@tollway/chassis/clock.ts'
import type { RandomBytes } from '../../domain/ids.ts'
import { isRefused, type Refused } from '../../domain/refusals.ts'
import type { Storage, Tx } from '../storage.ts'
import {
  type Answer,
  keyIdOf,
  lockIdOf,
  type Once,
  type OnceRequest,
  recall,
  retryAfterMs,
  save,
} from './answers.ts'
import { Unkept, untilCertain } from './certain-commit.ts'
import { findKey, lockKey } from './idempotency-keys.ts'
import { type OutsideWork, runOutside } from './outside-work.ts'
import { canProtectSecret } from './sealed-answer.ts'

/** The outcome of the work of a request. */
export interface Settled extends Answer {
  /** False for a refusal: nothing that the work wrote is stored, and the key stays free. */
  readonly keep: boolean
}

/**
 * The state of a request. `resumable`: the request began, its outcome is not stored, and no process works on
 * it. `unknown`: the request never began, or left nothing.
 */
export type Known = Once | { readonly kind: 'resumable' | 'unknown' }

/** The work of a request. Its argument is the identified request. */
type Work<R> = (tx: Tx, request: R) => Promise<Settled>
/** Returns the request, read in the transaction of the work. It must not write. */
type Identify<R> = (tx: Tx) => Promise<R | Refused>

export interface Idempotency {
  /**
   * Runs `work` and saves its answer in one transaction. When the connection is lost during the commit, finds
   * out whether the commit succeeded, and answers as usual.
   *
   * @param request the request, or a function that reads it in the same transaction, for example to find the
   *   owner of the key; its refusal is returned
   * @throws StorageError `commit-unknown` when the outcome cannot be found out in time; the same request with
   *   the same key finds it out later. An error of `work` is rethrown, and nothing is stored.
   */
  runOnce<R extends OnceRequest>(request: R, work: Work<R>): Promise<Once>
  runOnce<R extends OnceRequest>(request: Identify<R>, work: Work<R>): Promise<Once | Refused>
  /**
   * Does the same as `runOnce`, for an effect outside the database. A marker with the reference is committed
   * first and stays until the outcome is stored or refused. After a failure, the same request continues under
   * the same reference: at once after an error, after the lease when the process has crashed.
   */
  runOnceOutside<P extends object, T>(request: OnceRequest, work: OutsideWork<P, T>): Promise<Once | Refused>
  /** Returns the state of a request, without running it. */
  look(request: OnceRequest): Promise<Known>
}

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

export function createIdempotency(options: IdempotencyOptions): Idempotency {
  const { storage, clock, randomBytes } = options
  const { lifetimeMs = defaultLifetimeMs, leaseMs = defaultLeaseMs, resolveMs = defaultResolveMs } = options
  const limited = { ...options, lifetimeMs, leaseMs, resolveMs }

  async function attempt<R extends OnceRequest>(tx: Tx, request: R, work: Work<R>): Promise<Once> {
    if (request.secret && !canProtectSecret(request.key)) return { kind: 'weak-key' }
    const keyId = keyIdOf(request)
    const found = await lockKey(tx, lockIdOf(keyId), keyId, clock.nowMs())
    if (found === 'locked-by-other') return { kind: 'in-progress', retryAfterMs }
    if (found !== undefined) return recall(request, found)
    const { keep, status, body } = await work(tx, request)
    const answer = { status, body }
    if (!keep) throw new Unkept({ kind: 'answered', answer, replayed: false })
    const nowMs = clock.nowMs()
    const times = { nowMs, expiresMs: nowMs + lifetimeMs }
    return save(tx, request, answer, { times, randomBytes, owner: null })
  }

  function runOnce<R extends OnceRequest>(request: R, work: Work<R>): Promise<Once>
  function runOnce<R extends OnceRequest>(request: Identify<R>, work: Work<R>): Promise<Once | Refused>
  function runOnce<R extends OnceRequest>(given: R | Identify<R>, work: Work<R>): Promise<Once | Refused> {
    const identify = typeof given === 'function' ? given : async () => given
    let known: R | undefined
    return untilCertain(limited, async tx => {
      // Identified only once: after a lost commit only that commit matters.
      const request = known ?? (await identify(tx))
      if (isRefused(request)) return request
      known = request
      return attempt(tx, request, work)
    })
  }

  return {
    runOnce,
    runOnceOutside: (request, work) => runOutside(limited, request, work),

    async look(request) {
      const row = await storage.read(tx => findKey(tx, keyIdOf(request)))
      const nowMs = clock.nowMs()
      const isExpired = row?.state === 'done' && row.expires.getTime() <= nowMs
      if (row === undefined || isExpired) return { kind: 'unknown' }
      const known = recall(request, row)
      const isLeased = row.lease_until !== null && row.lease_until.getTime() > nowMs
      return known.kind === 'in-progress' && !isLeased ? { kind: 'resumable' } : known
    },
  }
}
