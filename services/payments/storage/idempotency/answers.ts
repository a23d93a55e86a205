import { createHash } from 'node:crypto'
import type { RandomBytes } from '../../domain/ids.ts'
import type { Tx } from '../storage.ts'
import { type KeyId, type KeyRow, saveAnswer } from './idempotency-keys.ts'
import { hashIdempotencyKey, openAnswer, sealAnswer } from './sealed-answer.ts'

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

export type Once =
  | { readonly kind: 'answered'; readonly answer: Answer; readonly replayed: boolean }
  /** Another request has used the key before. */
  | { readonly kind: 'key-reused' }
  /** The first request with the key is still running. */
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  /** A key that can be guessed cannot protect a secret answer. */
  | { readonly kind: 'weak-key' }

/** The suggested delay before a request with a key that is in use is repeated. */
export const retryAfterMs = 1_000

interface SaveOptions {
  readonly times: { readonly nowMs: number; readonly expiresMs: number }
  readonly randomBytes: RandomBytes
  /** The owner of the marker that the answer replaces; null without a marker. */
  readonly owner: string | null
}

/** Saves the answer of a request with the transaction; see `saveAnswer`. */
export function save(
  tx: Tx,
  request: OnceRequest,
  { status, body }: Answer,
  { times, randomBytes, owner }: SaveOptions,
): Once {
  const sealed = request.secret === true
  const plain = Buffer.from(body)
  const [fingerprint] = fingerprintsOf(request)
  const stored = sealed
    ? sealAnswer(request.key, sealContext(request, status, fingerprint), plain, randomBytes)
    : plain
  saveAnswer(tx, keyIdOf(request), { fingerprint, status, body: stored, sealed }, times, owner)
  return { kind: 'answered', answer: { status, body }, replayed: false }
}

/** Returns the answer of a row to a request with its key. */
export function recall(request: OnceRequest, row: KeyRow): Once {
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
export function fingerprintsOf({
  fingerprint,
  earlierFingerprint,
}: OnceRequest): readonly [Buffer, ...Buffer[]] {
  const first = Buffer.from(fingerprint, 'hex')
  return earlierFingerprint === undefined ? [first] : [first, Buffer.from(earlierFingerprint, 'hex')]
}

/** Returns a lock id of 64 bits. Two keys that share one by chance only wait for each other. */
export function lockIdOf({ scope, hash }: KeyId): bigint {
  return createHash('sha256').update(hash).update(scope).digest().readBigInt64BE()
}
