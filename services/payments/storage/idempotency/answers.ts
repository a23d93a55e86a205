import { createHash } from 'node:crypto'
import type { RandomBytes } from '../../domain/ids.ts'
import type { Tx } from '../storage.ts'
import { type KeyId, type KeyRow, saveAnswer } from './idempotency-keys.ts'
import { hashIdempotencyKey, openAnswer, sealAnswer } from './sealed-answer.ts'

/** A request that takes effect once, however often it is repeated. */
export interface IdempotentRequest {
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

export interface AnswerRecord {
  readonly status: number
  readonly body: string
}

export type IdempotentResult =
  | { readonly kind: 'answered'; readonly answer: AnswerRecord; readonly replayed: boolean }
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

/** Stores the answer of a request with the transaction; see `saveAnswer`. */
export function storeAnswer(
  tx: Tx,
  request: IdempotentRequest,
  { status, body }: AnswerRecord,
  { times, randomBytes, owner }: SaveOptions,
): IdempotentResult {
  const sealed = request.secret === true
  const plain = Buffer.from(body)
  const [fingerprint] = toFingerprints(request)
  const stored = sealed
    ? sealAnswer(request.key, sealContext(request, status, fingerprint), plain, randomBytes)
    : plain
  saveAnswer(tx, toKeyId(request), { fingerprint, status, body: stored, sealed }, times, owner)
  return { kind: 'answered', answer: { status, body }, replayed: false }
}

/** Returns the answer of a row to a request with its key. */
export function replayAnswer(request: IdempotentRequest, row: KeyRow): IdempotentResult {
  const fingerprint = toFingerprints(request).find(one => one.equals(row.fingerprint))
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
export function toKeyId({ scope, key }: IdempotentRequest): KeyId {
  return { scope, hash: hashIdempotencyKey(key) }
}

function sealContext({ scope }: IdempotentRequest, status: number, fingerprint: Buffer): string {
  return `${scope} ${fingerprint.toString('hex')} ${status}`
}

/** Returns the accepted fingerprints. The first one is stored. */
export function toFingerprints({
  fingerprint,
  earlierFingerprint,
}: IdempotentRequest): readonly [Buffer, ...Buffer[]] {
  const first = Buffer.from(fingerprint, 'hex')
  return earlierFingerprint === undefined ? [first] : [first, Buffer.from(earlierFingerprint, 'hex')]
}

/** Returns a lock id of 64 bits. Two keys that share one by chance only wait for each other. */
export function toLockId({ scope, hash }: KeyId): bigint {
  return createHash('sha256').update(hash).update(scope).digest().readBigInt64BE()
}
