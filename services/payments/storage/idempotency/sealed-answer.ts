import { createCipheriv, createDecipheriv, createHash, createHmac, hkdfSync } from 'node:crypto'
import type { RandomBytes } from '../../domain/ids.ts'

/**
 * Values derived from a caller's Idempotency-Key. The key itself is never stored. The database has a hash to
 * find the answer by, a fingerprint of the request that cannot be computed without the key, and, when the
 * answer holds a secret, the answer encrypted under a key that derives from the caller's.
 */
const nonceBytes = 12
const tagBytes = 16
const cipher = 'aes-256-gcm'
const minSecretBits = 128
/** RFC 9562, section 5.4. */
const randomUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i
/** One in ten thousand million texts of 30 random hexadecimal digits has fewer. */
const minDistinctCharacters = 7

export function hashIdempotencyKey(key: string): Buffer {
  return createHash('sha256').update('tollway idempotency key\0').update(key).digest()
}

/**
 * Returns equal fingerprints for equal requests under one key: method, path, body, and other identifying
 * parts.
 */
export function requestFingerprint(key: string, parts: readonly string[]): string {
  const hmac = createHmac('sha256', key)
  // The lengths make different lists of parts differ.
  for (const part of parts) hmac.update(`${Buffer.byteLength(part)}:`).update(part)
  return hmac.digest('hex')
}

/**
 * Returns whether the key can protect a secret: a UUID of version 4, which has 122 random bits, or 128 bits.
 * Randomness cannot be measured, so the alphabet and the length decide: 32 hexadecimal digits, or 22 of
 * base64. UUIDs of other versions have fewer random bits.
 */
export function canProtectSecret(key: string): boolean {
  // Hyphens between hexadecimal digits add no randomness.
  const text = /^[0-9a-f-]*$/i.test(key) ? key.replaceAll('-', '') : key
  if (new Set(text).size < minDistinctCharacters) return false
  if (/^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i.test(key)) return randomUuid.test(key)
  return text.length * bitsPerCharacter(text) >= minSecretBits
}

function bitsPerCharacter(text: string): number {
  if (/^\d*$/.test(text)) return Math.log2(10)
  if (/^[0-9a-f]*$/i.test(text)) return 4
  if (/^[0-9a-z]*$/.test(text) || /^[0-9A-Z]*$/.test(text)) return Math.log2(36)
  return Math.log2(62)
}

/** @param context identifies the owner of the answer; opening requires the same context */
export function sealAnswer(key: string, context: string, body: Uint8Array, random: RandomBytes): Buffer {
  const nonce = Buffer.from(random(nonceBytes))
  const sealing = createCipheriv(cipher, derive(key, context), nonce)
  const sealed = Buffer.concat([sealing.update(body), sealing.final()])
  return Buffer.concat([nonce, sealing.getAuthTag(), sealed])
}

/** @throws Error when the answer was sealed with another key or context, or was changed */
export function openAnswer(key: string, context: string, sealed: Uint8Array): Buffer {
  const bytes = Buffer.from(sealed)
  const opening = createDecipheriv(cipher, derive(key, context), bytes.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  })
  opening.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  return Buffer.concat([opening.update(bytes.subarray(nonceBytes + tagBytes)), opening.final()])
}

/** The key is random (see `canProtectSecret`), so extracting needs no stretching (RFC 5869, section 3.3). */
function derive(key: string, context: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, context, 'tollway sealed answer', 32))
}
