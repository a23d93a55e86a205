import { createCipheriv, createDecipheriv, createHash, createHmac, hkdfSync } from 'node:crypto'
import type { RandomBytes } from '../../domain/ids.ts'

/**
 * What the database stores instead of an Idempotency-Key: a hash that identifies the key, and a fingerprint
 * of the request, which cannot be computed without the key. An answer that contains a secret is encrypted
 * with AES-256-GCM under a key derived from the Idempotency-Key.
 */
const nonceBytes = 12
const tagBytes = 16
const cipher = 'aes-256-gcm'
const minSecretBits = 128
const randomUuid = /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/i
/**
 * A key needs this many different characters: only one in 10¹⁰ texts of 30 random hexadecimal digits has
 * fewer.
 */
const minDistinctCharacters = 7

export function hashIdempotencyKey(key: string): Buffer {
  return createHash('sha256').update('tollway idempotency key\0').update(key).digest()
}

/** Equal requests with the same key have equal fingerprints. */
export function requestFingerprint(key: string, parts: readonly string[]): string {
  const hmac = createHmac('sha256', key)
  // The lengths separate the parts: without them, ['a', 'bc'] and ['ab', 'c'] would have the same
  // fingerprint.
  for (const part of parts) hmac.update(`${Buffer.byteLength(part)}:`).update(part)
  return hmac.digest('hex')
}

/**
 * Reports whether a key has enough random bits to protect a secret. A UUID must be of version 4, which has
 * 122 random bits; other versions have fewer. Other keys must be long enough for 128 bits in their alphabet,
 * for example 32 hexadecimal digits or 22 characters of base64.
 */
export function canProtectSecret(key: string): boolean {
  // Hyphens between hexadecimal digits do not count, because they are not random.
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

/** @param context identifies the owner of the answer; `openAnswer` needs the same context */
export function sealAnswer(key: string, context: string, body: Uint8Array, random: RandomBytes): Buffer {
  const nonce = Buffer.from(random(nonceBytes))
  const sealing = createCipheriv(cipher, derive(key, context), nonce)
  const sealed = Buffer.concat([sealing.update(body), sealing.final()])
  return Buffer.concat([nonce, sealing.getAuthTag(), sealed])
}

/** @throws Error if the answer was sealed with another key or context, or was changed */
export function openAnswer(key: string, context: string, sealed: Uint8Array): Buffer {
  const bytes = Buffer.from(sealed)
  const opening = createDecipheriv(cipher, derive(key, context), bytes.subarray(0, nonceBytes), {
    authTagLength: tagBytes,
  })
  opening.setAuthTag(bytes.subarray(nonceBytes, nonceBytes + tagBytes))
  return Buffer.concat([opening.update(bytes.subarray(nonceBytes + tagBytes)), opening.final()])
}

/**
 * Derives the encryption key. A fast derivation suffices, because `canProtectSecret` ensures that the
 * Idempotency-Key cannot be guessed (RFC 5869, section 3.3).
 */
function derive(key: string, context: string): Buffer {
  return Buffer.from(hkdfSync('sha256', key, context, 'tollway sealed answer', 32))
}
