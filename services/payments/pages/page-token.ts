import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import type { RandomBytes } from '../domain/ids.ts'
import type { PageOutcome } from './views/outcome-pages.ts'

/**
 * What a token is for; it is not valid for another purpose. `T` is the type of the value, which must be JSON.
 */
interface TokenPurpose<T> {
  readonly name: string
  readonly maxAgeMs: number
  /** Never set. It only binds the type `T`. */
  readonly value?: T
}

export interface PageTokensOptions {
  /**
   * Returns the present secrets, each of at least 32 bytes. All processes of the service must have the same
   * ones. The first one encrypts; all of them decrypt, so that tokens from before a rotation stay valid.
   */
  readonly secrets: () => readonly Uint8Array[]
  readonly nowMs: () => number
  readonly randomBytes: RandomBytes
}

const minSecretBytes = 32
/** The longest text that is decrypted. Valid tokens have at most a few thousand characters. */
const maxTokenCharacters = 16_384
const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/**
 * Encrypts state that the browser returns with the next request, so that any process can answer that request
 * without stored state. A browser can neither read nor change the state.
 */
export class PageTokens {
  readonly #keys: () => readonly [Buffer, ...Buffer[]]
  readonly #nowMs: () => number
  readonly #randomBytes: RandomBytes

  /** @throws RangeError if there is no secret, or one is too short */
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

  /**
   * Returns the value in a token. Returns undefined if the token is too old, or was not encrypted with a
   * present secret for this purpose and binding.
   */
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

/** Creates a function that derives the keys, again only after the secrets have changed. */
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

/**
 * The state of an attempt to pay. The page contains it in a token, which the browser sends with the next
 * form.
 */
export interface AttemptState {
  readonly idempotencyKey: string
  /** The processor's reference of the authentication, which stands for the card. Empty if there is none. */
  readonly authentication: string
  /** The scheme and the last four digits of the card, from `cardLabel`. */
  readonly card: string
}

const minuteMs = 60_000

/** The token of the card form: valid for 1 hour, which must be shorter than idempotency keys are stored. */
export const formToken: TokenPurpose<{ readonly idempotencyKey: string }> = {
  name: 'form',
  maxAgeMs: 60 * minuteMs,
}
export const challengeToken: TokenPurpose<AttemptState> = { name: 'challenge', maxAgeMs: 15 * minuteMs }
/**
 * The token with which the payer asks for the outcome. Valid for 24 hours, as long as idempotency keys are
 * stored.
 */
export const inquiryToken: TokenPurpose<AttemptState> = { name: 'look', maxAgeMs: 24 * 60 * minuteMs }
/** The token that pages of the previous version contain. It serves only to find the payment. */
export const previousVersionToken: TokenPurpose<{ readonly idempotencyKey: string }> = {
  name: 'step',
  maxAgeMs: 24 * 60 * minuteMs,
}
export const outcomeToken: TokenPurpose<PageOutcome> = { name: 'outcome', maxAgeMs: 24 * 60 * minuteMs }
