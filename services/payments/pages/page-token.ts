import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import type { RandomBytes } from '../domain/ids.ts'
import type { PageOutcome } from './views/outcome-pages.ts'

/** The purpose of a token, which is valid for no other purpose. Values are JSON. */
export interface TokenPurpose<T> {
  readonly name: string
  readonly maxAgeMs: number
  /** Carries only the type of the value. */
  readonly value?: T
}

export interface PageTokensOptions {
  /**
   * Returns the current secrets, each of at least 32 bytes, and the same in all processes of the service. The
   * first one encrypts; all of them decrypt, so that tokens from before a rotation stay valid.
   */
  readonly secrets: () => readonly Uint8Array[]
  /** Milliseconds since the epoch. */
  readonly nowMs: () => number
  readonly randomBytes: RandomBytes
}

const minSecretBytes = 32
/** A longer text is not decrypted. Tokens have a few thousand characters at most. */
const maxTokenCharacters = 16_384
const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/**
 * Encrypts and authenticates state that the browser keeps between two requests, so that any process can
 * answer the next request and none stores the state.
 */
export class PageTokens {
  readonly #keys: () => readonly [Buffer, ...Buffer[]]
  readonly #nowMs: () => number
  readonly #randomBytes: RandomBytes

  /** @throws RangeError for no secret, or one that is too short */
  constructor({ secrets, nowMs, randomBytes }: PageTokensOptions) {
    this.#keys = createKeys(secrets)
    this.#keys()
    this.#nowMs = nowMs
    this.#randomBytes = randomBytes
  }

  encrypt<T>(purpose: TokenPurpose<T>, binding: string, value: T): string {
    const nonce = Buffer.from(this.#randomBytes(nonceBytes))
    const [key] = this.#keys()
    const encryption = createCipheriv(cipher, key, nonce)
    encryption.setAAD(additionalData(purpose, binding))
    const plain = JSON.stringify({ atMs: this.#nowMs(), value })
    const body = Buffer.concat([encryption.update(plain, 'utf8'), encryption.final()])
    return Buffer.concat([nonce, encryption.getAuthTag(), body]).toString('base64url')
  }

  /** Returns undefined for a token that is too old, or was not made here for this purpose and binding. */
  decrypt<T>(purpose: TokenPurpose<T>, binding: string, token: unknown): T | undefined {
    if (typeof token !== 'string' || token.length > maxTokenCharacters) return undefined
    const bytes = Buffer.from(token, 'base64url')
    const bound = additionalData(purpose, binding)
    let plain: string | undefined
    for (const key of this.#keys()) plain ??= decrypt(key, bound, bytes)
    if (plain === undefined) return undefined
    const { atMs, value } = JSON.parse(plain)
    return this.#nowMs() - atMs > purpose.maxAgeMs ? undefined : value
  }
}

/** The keys of the secrets, derived once for each secret that is in force. */
function createKeys(secrets: () => readonly Uint8Array[]): () => readonly [Buffer, ...Buffer[]] {
  let known: readonly Uint8Array[] = []
  let keys: readonly Buffer[] = []
  return () => {
    const now = secrets()
    if (now !== known) {
      for (const secret of now) {
        if (secret.byteLength >= minSecretBytes) continue
        throw new RangeError(`secret: has ${secret.byteLength} bytes; at least ${minSecretBytes} are needed`)
      }
      keys = now.map(secret => Buffer.from(hkdfSync('sha256', secret, '', 'tollway payment page', 32)))
      known = now
    }
    const [first, ...others] = keys
    if (first === undefined) throw new RangeError('secret: is missing')
    return [first, ...others]
  }
}

function decrypt(key: Buffer, bound: Buffer, bytes: Buffer): string | undefined {
  if (bytes.length < nonceBytes + tagBytes) return undefined
  const decryption = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
  decryption.setAAD(bound)
  decryption.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  const body = decryption.update(bytes.subarray(nonceBytes + tagBytes))
  try {
    return Buffer.concat([body, decryption.final()]).toString('utf8')
  } catch {
    return undefined
  }
}

function additionalData({ name }: { readonly name: string }, binding: string): Buffer {
  return Buffer.from(JSON.stringify([name, binding]))
}

/** The state of an attempt, which the payer's browser keeps between two pages in a token. */
export interface AttemptState {
  readonly idempotencyKey: string
  /**
   * The processor's reference of the authentication, which represents the card. Empty without an
   * authentication.
   */
  readonly authentication: string
  /** The scheme and the last four digits. */
  readonly card: string
}

const minuteMs = 60_000

/** Limits the time to fill in the card form. Shorter than the time that idempotency keys are kept. */
export const formToken: TokenPurpose<{ readonly idempotencyKey: string }> = {
  name: 'form',
  maxAgeMs: 60 * minuteMs,
}
/** Limits the time to answer a challenge. */
export const challengeToken: TokenPurpose<AttemptState> = { name: 'challenge', maxAgeMs: 15 * minuteMs }
/** Finds the outcome of a payment, for as long as idempotency keys are kept. */
export const inquiryToken: TokenPurpose<AttemptState> = { name: 'look', maxAgeMs: 24 * 60 * minuteMs }
/** The token of processes of the previous version. Its card is not used: it only finds the payment. */
export const previousVersionToken: TokenPurpose<{ readonly idempotencyKey: string }> = {
  name: 'step',
  maxAgeMs: 24 * 60 * minuteMs,
}
export const outcomeToken: TokenPurpose<PageOutcome> = { name: 'outcome', maxAgeMs: 24 * 60 * minuteMs }
