import { createCipheriv, createDecipheriv, hkdfSync } from 'node:crypto'
import type { RandomBytes } from '../domain/ids.ts'
import type { Outcome } from './views/outcome-pages.ts'

/**
 * Encrypts and authenticates state that the browser keeps between two requests, so that any process can
 * answer the next request and none stores the state.
 */
export interface Seal {
  close<T>(purpose: Purpose<T>, binding: string, value: T): string
  /** Returns undefined for a text that is too old, or was not sealed here for this purpose and binding. */
  open<T>(purpose: Purpose<T>, binding: string, sealed: unknown): T | undefined
}

/** The purpose of a sealed value, which opens for no other purpose. Values are of JSON. */
export interface Purpose<T> {
  readonly name: string
  readonly maxAgeMs: number
  /** Carries only the type of the value. */
  readonly value?: T
}

export interface SealOptions {
  /**
   * Returns the current secrets, each of at least 32 bytes, and the same in all processes of the service. The
   * first one seals; all of them open, so that texts from before a rotation stay readable.
   */
  readonly secrets: () => readonly Uint8Array[]
  /** Milliseconds since the epoch. */
  readonly nowMs: () => number
  readonly randomBytes: RandomBytes
}

const minSecretBytes = 32
/** A longer text is not decrypted. Sealed texts have a few thousand characters at most. */
const maxSealedCharacters = 16_384
const cipher = 'aes-256-gcm'
const nonceBytes = 12
const tagBytes = 16

/** @throws RangeError for no secret, or one that is too short */
export function createSeal({ secrets, nowMs, randomBytes }: SealOptions): Seal {
  const keys = createKeys(secrets)
  keys()
  return {
    close(purpose, binding, value) {
      const nonce = Buffer.from(randomBytes(nonceBytes))
      const [key] = keys()
      const sealing = createCipheriv(cipher, key, nonce)
      sealing.setAAD(contextOf(purpose, binding))
      const plain = JSON.stringify({ atMs: nowMs(), value })
      const body = Buffer.concat([sealing.update(plain, 'utf8'), sealing.final()])
      return Buffer.concat([nonce, sealing.getAuthTag(), body]).toString('base64url')
    },
    open(purpose, binding, sealed) {
      if (typeof sealed !== 'string' || sealed.length > maxSealedCharacters) return undefined
      const bytes = Buffer.from(sealed, 'base64url')
      const context = contextOf(purpose, binding)
      let plain: string | undefined
      for (const key of keys()) plain ??= decrypt(key, context, bytes)
      if (plain === undefined) return undefined
      const { atMs, value } = JSON.parse(plain)
      return nowMs() - atMs > purpose.maxAgeMs ? undefined : value
    },
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
    if (first === undefined) throw new RangeError('secret: there is none')
    return [first, ...others]
  }
}

function decrypt(key: Buffer, context: Buffer, bytes: Buffer): string | undefined {
  if (bytes.length < nonceBytes + tagBytes) return undefined
  const opening = createDecipheriv(cipher, key, bytes.subarray(0, nonceBytes), { authTagLength: tagBytes })
  opening.setAAD(context)
  opening.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  const body = opening.update(bytes.subarray(nonceBytes + tagBytes))
  try {
    return Buffer.concat([body, opening.final()]).toString('utf8')
  } catch {
    return undefined
  }
}

function contextOf({ name }: { readonly name: string }, binding: string): Buffer {
  return Buffer.from(JSON.stringify([name, binding]))
}

/**
 * The sealed state of an attempt, which the payer's browser keeps between two pages. Any process can continue
 * the attempt with it.
 */
export interface Ticket {
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
export const formToken: Purpose<{ readonly idempotencyKey: string }> = {
  name: 'form',
  maxAgeMs: 60 * minuteMs,
}
/** Limits the time to answer a challenge. */
export const challengeTicket: Purpose<Ticket> = { name: 'challenge', maxAgeMs: 15 * minuteMs }
/** Finds the outcome of a payment, for as long as idempotency keys are kept. */
export const inquiryTicket: Purpose<Ticket> = { name: 'look', maxAgeMs: 24 * 60 * minuteMs }
/** The ticket of processes of the previous version. Its card is not used: it only finds the payment. */
export const previousVersionTicket: Purpose<{ readonly idempotencyKey: string }> = {
  name: 'step',
  maxAgeMs: 24 * 60 * minuteMs,
}
export const outcomeSeal: Purpose<Outcome> = { name: 'outcome', maxAgeMs: 24 * 60 * minuteMs }
