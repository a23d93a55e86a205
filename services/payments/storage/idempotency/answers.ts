import { createHash } from 'node:crypto'
import type { RandomBytes } from '../../domain/ids.ts'
import type { Tx } from '../storage.ts'
import { type KeyId, type KeyRow, saveAnswer } from './idempotency-keys.ts'
import { hashIdempotencyKey, openAnswer, sealAnswer } from './sealed-answer.ts'

/** A request that takes effect only once, however often a client repeats it with the same key. */
export interface IdempotentRequest {
  /** The owner of the key, for example `app:ID`. Equal keys in different scopes are different keys. */
  readonly scope: string
  readonly key: string
  /** The result of `requestFingerprint`, which identifies the content of the request. */
  readonly fingerprint: string
  /** The fingerprint that the previous version of the service computes, if it is different. */
  readonly earlierFingerprint?: string
  /** Whether the answer has a secret, and is encrypted with a key derived from the Idempotency-Key. */
  readonly secret?: boolean
}

export interface AnswerRecord {
  readonly status: number
  readonly body: string
}

export type IdempotentResult =
  | { readonly kind: 'answered'; readonly answer: AnswerRecord; readonly replayed: boolean }
  /** A request with another content has used the key before. */
  | { readonly kind: 'key-reused' }
  /** An earlier request with the key is still running. */
  | { readonly kind: 'in-progress'; readonly retryAfterMs: number }
  /** The answer contains a secret, and the key could be guessed, so it cannot protect the stored answer. */
  | { readonly kind: 'weak-key' }

/** How long a client should wait before it repeats a request whose key is in use. */
export const retryAfterMs = 1_000

interface SaveOptions {
  readonly times: { readonly nowMs: number; readonly expiresMs: number }
  readonly randomBytes: RandomBytes
  /** The owner of the marker that the answer replaces; null if the request has stored none. See `markKey`. */
  readonly owner: string | null
}

/** See `saveAnswer` for when the caller's transaction fails. */
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

/** Returns what the row means for the request: its answer, `key-reused` or `in-progress`. */
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

/** Returns the scope and the hash of the key. The key itself is never stored. */
export function toKeyId({ scope, key }: IdempotentRequest): KeyId {
  return { scope, hash: hashIdempotencyKey(key) }
}

function sealContext({ scope }: IdempotentRequest, status: number, fingerprint: Buffer): string {
  return `${scope} ${fingerprint.toString('hex')} ${status}`
}

/** Returns the fingerprints that a stored row may have for this request. New rows get the first one. */
export function toFingerprints({
  fingerprint,
  earlierFingerprint,
}: IdempotentRequest): readonly [Buffer, ...Buffer[]] {
  const first = Buffer.from(fingerprint, 'hex')
  return earlierFingerprint === undefined ? [first] : [first, Buffer.from(earlierFingerprint, 'hex')]
}

/** Returns 64 bits of a hash. If two keys have the same id, only one of them is in use at a time. */
export function toLockId({ scope, hash }: KeyId): bigint {
  return createHash('sha256').update(hash).update(scope).digest().readBigInt64BE()
}
