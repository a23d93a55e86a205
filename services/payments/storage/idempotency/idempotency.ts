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

/** A request that is to have its effect once, however often it comes. */
export interface OnceRequest {
  /** Whose keys they are, for example `app:ID`: equal keys of two scopes are two keys. */
  readonly scope: string
  /** The caller's Idempotency-Key. */
  readonly key: string
  /** See `requestFingerprint`. */
  readonly fingerprint: string
  /** That of the same request in a process of the version before, where it is another one. */
  readonly earlierFingerprint?: string
  /** The answer holds a secret and is stored under a key derived from the caller's. */
  readonly secret?: boolean
}

export interface Answer {
  readonly status: number
  readonly body: string
}

/** What the work of a request comes to. */
export interface Settled extends Answer {
  /** False for a refusal: neither it nor anything that the work wrote is stored, and the key stays free. */
  readonly keep: boolean
}

export type Once =
  | { readonly kind: 'answered'; readonly answer: Answer; readonly replayed: boolean }
  /** The key came with another request before. */
  | { readonly kind: 'key-reused' }
  /** The first request with the key still runs. */
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  /** A secret answer was asked for under a key that can be guessed. */
  | { readonly kind: 'weak-key' }

/**
 * The state of a request: `resumable` if it began, its outcome is not stored, and no process works on it;
 * `unknown` if it never began or left nothing.
 */
export type Known = Once | { readonly kind: 'resumable' | 'unknown' }

/** What a request is about. It gets the request as it was identified. */
export type Work<R> = (tx: Tx, request: R) => Promise<Settled>
/** Finds out, in the transaction of the work, whose request it is; only reads. */
export type Identify<R> = (tx: Tx) => Promise<R | Refused>

/** Work with an effect outside the database, recognised there by its reference when it comes again. */
export interface OutsideWork<P extends object, T> {
  /** Runs in the transaction that stores the marker, before the effect. A refusal leaves nothing stored. */
  readonly prepare: (tx: Tx, reference: string) => Promise<P | Refused>
  /** Has the effect. May run more than once with the same reference. Must end before the lease does. */
  readonly outside: (reference: string, prepared: P) => Promise<T>
  /**
   * Stores the outcome, in the transaction that saves the answer. A refusal says that there is none to keep.
   */
  readonly settle: (tx: Tx, outcome: T) => Promise<Answer | Refused>
  /** Removes what `prepare` stored, in the transaction that frees the key after a refusal of `settle`. */
  readonly forget: (tx: Tx, reference: string) => Promise<void>
}

export interface Idempotency {
  /**
   * Runs `work` in one transaction with the saving of its answer: both are there or neither. When the
   * connection is lost during the commit, looks which it was, and answers as if nothing had happened.
   *
   * @param request the request, or who makes it of what is found in the same transaction, such as whose key
   *   it is; when that refuses, its refusal comes out
   * @throws StorageError, `commit-unknown` when that could not be found out in time; the same request with
   *   the same key finds it out later. What `work` throws comes out, and nothing is stored.
   */
  runOnce<R extends OnceRequest>(request: R, work: Work<R>): Promise<Once>
  runOnce<R extends OnceRequest>(request: Identify<R>, work: Work<R>): Promise<Once | Refused>
  /**
   * The same around an effect that no transaction can contain. A marker with the reference is committed first
   * and stays until the outcome is stored or refused. When anything fails in between, the same request
   * continues under the same reference: at once after an error, after the lease when the process has crashed.
   */
  runOnceOutside<P extends object, T>(request: OnceRequest, work: OutsideWork<P, T>): Promise<Once | Refused>
  /** Returns the state of a request without running it. */
  look(request: OnceRequest): Promise<Known>
}

export interface IdempotencyOptions {
  readonly storage: Storage
  readonly clock: Clock
  /** Uniform in [0, 1); spreads waits. */
  readonly random: () => number
  readonly randomBytes: RandomBytes
  /** How long an answer is kept; 24 hours when left out. */
  readonly lifetimeMs?: number
  /** How long a marker holds. */
  readonly leaseMs?: number
  /** How long the outcome of a lost commit is looked for. */
  readonly resolveMs?: number
}

const defaultLifetimeMs = 24 * 60 * 60 * 1000
const defaultLeaseMs = 60_000
const defaultResolveMs = 10_000
const retryAfterMs = 1_000

/** Leaves a transaction without storing anything. */
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

  /** Repeats `step` until its outcome is certain: a commit of unknown outcome is looked at again. */
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

  /** The marker's reference with what `prepare` made of it, the row that is in the way, or the refusal. */
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
    // The lease was over, and another process has finished the work, works on it, or has cancelled it.
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
      // Who asks is found out once: after a lost commit only that commit matters.
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
          // When this fails, the lease ends by itself, and the same request gets the same refusal.
          await storage.transaction(free).catch(() => {})
        }
        return once
      } catch (error) {
        // A lease that cannot be ended now ends by itself.
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

/** An answer, or the error after which the step is to be repeated; all other errors are thrown. */
async function settleStep<T>(
  step: () => Promise<T>,
  unknown: StorageError | undefined,
): Promise<T | Once | Refused | StorageError> {
  try {
    return await unlessUnkept(step)
  } catch (error) {
    // Another transaction saved an answer between the look and the saving: the repeated step finds it.
    if (isUnknownCommit(error) || (error instanceof StorageError && isOvertaken(error))) return error
    // While the outcome of the first commit is unknown, no other outcome may be reported.
    if (unknown !== undefined && error instanceof StorageError && error.code === 'unavailable') return unknown
    throw error
  }
}

function isUnknownCommit(error: unknown): error is StorageError {
  return error instanceof StorageError && error.code === 'commit-unknown'
}

/** What a row says to a request with its key. */
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

/** How the key is stored. */
export function keyIdOf({ scope, key }: OnceRequest): KeyId {
  return { scope, hash: hashIdempotencyKey(key) }
}

function sealContext({ scope }: OnceRequest, status: number, fingerprint: Buffer): string {
  return `${scope} ${fingerprint.toString('hex')} ${status}`
}

/** The first is the one that is stored. */
function fingerprintsOf({ fingerprint, earlierFingerprint }: OnceRequest): readonly [Buffer, ...Buffer[]] {
  const first = Buffer.from(fingerprint, 'hex')
  return earlierFingerprint === undefined ? [first] : [first, Buffer.from(earlierFingerprint, 'hex')]
}

/** Of 64 bits: two keys that share one by chance only wait for each other. */
function lockIdOf({ scope, hash }: KeyId): bigint {
  return createHash('sha256').update(hash).update(scope).digest().readBigInt64BE()
}
