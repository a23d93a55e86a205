import { createHash } from 'node:crypto'

/** Returns `count` random bytes; `randomBytes` of node:crypto in production. */
export type RandomBytes = (count: number) => Uint8Array

const idBytes = 16
const idPattern = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/

/**
 * Returns a new id for a record of any kind: a UUID of version 7 (RFC 9562, section 5.7) in its canonical
 * text. Ids made in different milliseconds sort by time, as text and in a `uuid` column.
 */
export function newId(nowMs: number, random: RandomBytes): string {
  const bytes = Buffer.alloc(idBytes)
  bytes.set(random(idBytes - 6), 6)
  bytes.writeUIntBE(nowMs, 0, 6)
  return uuid(bytes, 7)
}

/**
 * Derives the id of a record that another system names, such as a processor's dispute: the same name has the
 * same id, so that a repeated report is one record. The id is a UUID of version 8 (RFC 9562, section 5.8)
 * made of the first 128 bits of a SHA-256.
 */
export function derivedId(kind: string, name: string): string {
  const hash = createHash('sha256')
    .update(JSON.stringify([kind, name]), 'utf8')
    .digest()
  return uuid(hash.subarray(0, idBytes), 8)
}

/** Returns a random UUID of version 4. Unlike an id, it contains no time, because it is public. */
export function newPublicKey(random: RandomBytes): string {
  return uuid(Buffer.from(random(idBytes)), 4)
}

/** Reports whether a text from outside has the form of an id. Callers reject other text without a query. */
export function isId(text: string): boolean {
  return idPattern.test(text)
}

const apiKeyBytes = 32

/** Returns 256 random bits in base64url after a prefix, by which scanners can find leaked keys. */
export function newApiKey(random: RandomBytes): string {
  return `tollway_${Buffer.from(random(apiKeyBytes)).toString('base64url')}`
}

/** A key of 256 random bits cannot be guessed, so its hash needs neither a salt nor a slow function. */
export function hashApiKey(key: string): string {
  return createHash('sha256').update(key, 'utf8').digest('hex')
}

function uuid(bytes: Buffer, version: number): string {
  bytes.writeUInt8((bytes.readUInt8(6) & 0x0f) | (version << 4), 6)
  bytes.writeUInt8((bytes.readUInt8(8) & 0x3f) | 0x80, 8)
  const hex = bytes.toString('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), hex.slice(12, 16), hex.slice(16, 20), hex.slice(20)].join('-')
}
