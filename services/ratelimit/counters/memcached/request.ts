import { CountersError } from '../counters.ts'

/** The longest relative expiry: memcached reads a larger number as a Unix time. */
const maxRelativeSeconds = 30 * 24 * 60 * 60
/** Memcached stores an expiry as a signed 32-bit integer. */
const maxExpiry = 2 ** 31 - 1

/** Adds `by` to an existing counter; for a negative `by` subtracts from it, but not below 0. */
export function changeRequest(key: string, by: number): string {
  return by < 0 ? `decr ${key} ${-by}\r\n` : `incr ${key} ${by}\r\n`
}

/** Creates a counter of 0 if there is none; `expiry` is as returned by `toExpiry`. */
export function addRequest(key: string, expiry: number): string {
  return `add ${key} 0 ${expiry} 1\r\n0\r\n`
}

/** Changes the expiry of an existing counter; `expiry` is as returned by `toExpiry`. */
export function touchRequest(key: string, expiry: number): string {
  return `touch ${key} ${expiry}\r\n`
}

export function getRequest(key: string): string {
  return `get ${key}\r\n`
}

/**
 * Returns the expiry to send for a counter that is kept for at least `expirySeconds` seconds: relative up to
 * 30 days, a Unix time beyond. Memcached's clock counts whole seconds, so an expiry of n seconds may end up
 * to a second early; therefore one second is added.
 */
export function toExpiry(expirySeconds: number, nowMs: number): number {
  const seconds = expirySeconds + 1
  if (seconds <= maxRelativeSeconds) return seconds
  return Math.min(maxExpiry, Math.ceil(nowMs / 1000) + seconds)
}

/** The length in UTF-8. */
const maxKeyBytes = 250

/** A key of at most this many UTF-16 code units is never longer than `maxKeyBytes`. */
const surelyShort = Math.floor(maxKeyBytes / 3)

/** Matches a non-empty text without spaces and control characters, the bytes 0x00 to 0x20 and 0x7f. */
const legalCharacters = /^[!-~\u0080-\uffff]+$/

/** The caller is at fault, not the backend. The message is the one of envoyproxy/ratelimit. */
export class MalformedKeyError extends CountersError {
  constructor() {
    super('malformed: key is too long or contains invalid characters')
  }
}

/** Returns whether the key has at most 250 bytes, and no space or control character. */
export function isLegalKey(key: string): boolean {
  if (key.length > maxKeyBytes || !legalCharacters.test(key)) return false
  return key.length <= surelyShort || Buffer.byteLength(key) <= maxKeyBytes
}
