import { createHash } from 'node:crypto'
import { setTimeout as pause } from 'node:timers/promises'
import { createBackoff } from '@tollway/chassis/backoff.ts'
import type { Clock } from '@tollway/chassis/clock.ts'
import { newId, type RandomBytes } from '../../domain/ids.ts'
import { isRefused, type Refused } from '../../domain/refusals.ts'
import { type Storage, StorageError, type Tx } from '../storage.ts'
import {
  endLease,
  findKey,
  isOvertaken,
  type KeyId,
  type KeyRow,
  lockKey,
  lockMarkedKey,
  markKey,
  removeMarker,
  saveAnswer,
} from './idempotency-keys.ts'
import { canProtectSecret, hashIdempotencyKey, openAnswer, sealAnswer } from './sealed-answer.ts'

/** A request whose effect happens once, however often the request is repeated. */
export interface OnceRequest {
  /** The owner of the keys, for example `app:ID`: equal keys of two scopes are two keys. */
  readonly scope: string
  /** The caller's Idempotency-Key. */
  readonly key: string
  /** See `requestFingerprint`. */
  readonly fingerprint: string
  /** The fingerprint that a process of the previous version computes, where it differs. */
  readonly earlierFingerprint?: string
  /** The answer holds a secret and is stored under a key derived from the caller's. */
  readonly secret?: boolean
}

export interface Answer {
  readonly status: number
  readonly body: string
}

/** The outcome of the work of a request. */
export interface Settled extends Answer {
  /** False for a refusal: nothing that the work wrote is stored, and the key stays free. */
  readonly keep: boolean
}

export type Once =
  | { readonly kind: 'answered'; readonly answer: Answer; readonly replayed: boolean }
  /** Another request has used the key before. */
  | { readonly kind: 'key-reused' }
  /** The first request with the key is still running. */
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  /** A key that can be guessed cannot protect a secret answer. */
  | { readonly kind: 'weak-key' }

/**
 * The state of a request. `resumable`: the request began, its outcome is not stored, and no process works on
 * it. `unknown`: the request never began, or left nothing.
 */
export type Known = Once | { readonly kind: 'resumable' | 'unknown' }

/** The work of a request. Its argument is the identified request. */
export type Work<R> = (tx: Tx, request: R) => Promise<Settled>
/** Returns the request, read in the transaction of the work. It must not write. */
export type Identify<R> = (tx: Tx) => Promise<R | Refused>

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
   * Like `runOnce`, for an effect outside the database. A marker with the reference is committed first and
   * stays until the outcome is stored or refused. After a failure, the same request continues under the same
   * reference: at once after an error, after the lease when the process has crashed.
   */
  runOnceOutside<P extends object, T>(request: OnceRequest, work: OutsideWork<P, T>): Promise<Once | Refused>
  /** Returns the state of a request, without running it. */
  look(request: OnceRequest): Promise<Known>
}

export interface IdempotencyOptions {
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
const retryAfterMs = 1_000

/** Rolls back a transaction and carries its outcome. */
class Unkept extends Error {
  readonly outcome: Once | Refused

  constructor(outcome: Once | Refused) {
    super('the answer is not kept')
    this.outcome = outcome
  }
}

export function createIdempotency(options: IdempotencyOptions): Idempotency {
  const { storage, clock, random, randomBytes } = options
  const { lifetimeMs = defaultLifetimeMs, leaseMs = defaultLeaseMs, resolveMs = defaultResolveMs } = options

  function times() {
    const nowMs = clock.nowMs()
    return { nowMs, expiresMs: nowMs + lifetimeMs }
  }

  function save(tx: Tx, request: OnceRequest, { status, body }: Answer, owner: string | null): Once {
    const sealed = request.secret === true
    const plain = Buffer.from(body)
    const [fingerprint] = fingerprintsOf(request)
    const saved = {
      fingerprint,
      status,
      body: sealed
        ? sealAnswer(request.key, sealContext(request, status, fingerprint), plain, randomBytes)
        : plain,
      sealed,
    }
    saveAnswer(tx, keyIdOf(request), saved, times(), owner)
    return { kind: 'answered', answer: { status, body }, replayed: false }
  }

  async function attempt<R extends OnceRequest>(tx: Tx, request: R, work: Work<R>): Promise<Once> {
    if (request.secret && !canProtectSecret(request.key)) return { kind: 'weak-key' }
    const keyId = keyIdOf(request)
    const found = await lockKey(tx, lockIdOf(keyId), keyId, clock.nowMs())
    if (found === 'locked-by-other') return { kind: 'in-progress', retryAfterMs }
    if (found !== undefined) return recall(request, found)
    const { keep, status, body } = await work(tx, request)
    const answer = { status, body }
    if (!keep) throw new Unkept({ kind: 'answered', answer, replayed: false })
    return save(tx, request, answer, null)
  }

  /** Repeats `step` until its outcome is certain: a commit of unknown outcome is checked again. */
  async function untilCertain(step: (tx: Tx) => Promise<Once | Refused>): Promise<Once | Refused> {
    const giveUpMs = clock.monotonicMs() + resolveMs
    const backoff = createBackoff({ initialMs: 10, maxMs: 500, factor: 2, jitter: 0.5, random })
    let unknown: StorageError | undefined
    for (;;) {
      const outcome = await settleStep(() => storage.transaction(step), unknown)
      if (!(outcome instanceof Error)) {
        // The transaction of the lost commit may still hold the key.
        if (unknown === undefined || isRefused(outcome) || outcome.kind !== 'in-progress') return outcome
      } else if (isUnknownCommit(outcome)) unknown = outcome
      if (clock.monotonicMs() > giveUpMs) throw unknown ?? outcome
      await pause(backoff.nextMs())
    }
  }

  /** Returns the marker's reference and the result of `prepare`, the row in its place, or the refusal. */
  async function claim<P extends object>(
    request: OnceRequest,
    owner: string,
    prepare: OutsideWork<P, unknown>['prepare'],
  ) {
    const ownReference = newId(clock.nowMs(), randomBytes)
    const step = async (tx: Tx) => {
      const at = times()
      const marker = { owner, reference: ownReference, leaseUntilMs: at.nowMs + leaseMs }
      const marked = await markKey(tx, keyIdOf(request), fingerprintsOf(request), marker, at)
      if ('row' in marked) return marked
      const prepared = await prepare(tx, marked.reference)
      if (isRefused(prepared)) throw new Unkept(prepared)
      return { reference: marked.reference, prepared }
    }
    // The marker names its owner: a repeated claim finds it or makes it.
    return untilKnown(() => unlessUnkept(() => storage.transaction(step)))
  }

  async function settle(
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
    return save(tx, request, answer, owner)
  }

  function runOnce<R extends OnceRequest>(request: R, work: Work<R>): Promise<Once>
  function runOnce<R extends OnceRequest>(request: Identify<R>, work: Work<R>): Promise<Once | Refused>
  function runOnce<R extends OnceRequest>(given: R | Identify<R>, work: Work<R>): Promise<Once | Refused> {
    const identify = typeof given === 'function' ? given : async () => given
    let known: R | undefined
    return untilCertain(async tx => {
      // Identified only once: after a lost commit only that commit matters.
      const request = known ?? (await identify(tx))
      if (isRefused(request)) return request
      known = request
      return attempt(tx, request, work)
    })
  }

  return {
    runOnce,
    look,

    async runOnceOutside(request, work) {
      if (request.secret && !canProtectSecret(request.key)) return { kind: 'weak-key' }
      const keyId = keyIdOf(request)
      const owner = newId(clock.nowMs(), randomBytes)
      const claimed = await claim(request, owner, work.prepare)
      if ('row' in claimed) return recall(request, claimed.row)
      if (!('prepared' in claimed)) return claimed
      const { reference, prepared } = claimed
      try {
        const outcome = await work.outside(reference, prepared)
        const once = await untilCertain(tx => settle(tx, request, owner, () => work.settle(tx, outcome)))
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
    },
  }

  async function look(request: OnceRequest): Promise<Known> {
    const row = await storage.read(tx => findKey(tx, keyIdOf(request)))
    const nowMs = clock.nowMs()
    if (row === undefined || (row.state === 'done' && row.expires.getTime() <= nowMs))
      return { kind: 'unknown' }
    const known = recall(request, row)
    const isLeased = row.lease_until !== null && row.lease_until.getTime() > nowMs
    return known.kind === 'in-progress' && !isLeased ? { kind: 'resumable' } : known
  }

  async function untilKnown<T>(step: () => Promise<T>): Promise<T> {
    try {
      return await step()
    } catch (error) {
      if (!isUnknownCommit(error)) throw error
      return step()
    }
  }
}

async function unlessUnkept<T>(step: () => Promise<T>): Promise<T | Once | Refused> {
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

function isUnknownCommit(error: unknown): error is StorageError {
  return error instanceof StorageError && error.code === 'commit-unknown'
}

/** Returns the answer of a row to a request with its key. */
function recall(request: OnceRequest, row: KeyRow): Once {
  const fingerprint = fingerprintsOf(request).find(one => one.equals(row.fingerprint))
  if (fingerprint === undefined) return { kind: 'key-reused' }
  if (row.state === 'in-progress' || row.status === null || row.body === null) {
    return { kind: 'in-progress', retryAfterMs }
  }
  const { status, body, sealed } = row
  const plain = sealed
    ? openAnswer(request.key, sealContext(request, status, fingerprint), body)
    : Buffer.from(body)
  return { kind: 'answered', answer: { status, body: plain.toString() }, replayed: true }
}

/** Returns the stored form of the key. */
export function keyIdOf({ scope, key }: OnceRequest): KeyId {
  return { scope, hash: hashIdempotencyKey(key) }
}

function sealContext({ scope }: OnceRequest, status: number, fingerprint: Buffer): string {
  return `${scope} ${fingerprint.toString('hex')} ${status}`
}

/** Returns the accepted fingerprints. The first one is stored. */
function fingerprintsOf({ fingerprint, earlierFingerprint }: OnceRequest): readonly [Buffer, ...Buffer[]] {
  const first = Buffer.from(fingerprint, 'hex')
  return earlierFingerprint === undefined ? [first] : [first, Buffer.from(earlierFingerprint, 'hex')]
}

/** Returns a lock id of 64 bits. Two keys that share one by chance only wait for each other. */
function lockIdOf({ scope, hash }: KeyId): bigint {
  return createHash('sha256').update(hash).update(scope).digest().readBigInt64BE()
}
