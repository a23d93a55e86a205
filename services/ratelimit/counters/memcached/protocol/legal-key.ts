import { CountersError } from '../../counters.ts'

/** The protocol's limit, in bytes of UTF-8. */
export const maxKeyBytes = 250

/** A key of at most this many UTF-16 code units never exceeds the limit. */
const surelyShort = Math.floor(maxKeyBytes / 3)

/** Matches non-empty texts without the bytes 0x00 to 0x20 and 0x7f. */
const legalCharacters = /^[!-~\u0080-\uffff]+$/

/**
 * Memcached cannot store the key: the caller is at fault, not the backend. The text is that of the
 * reference's client.
 */
export class MalformedKeyError extends CountersError {
  constructor() {
    super('malformed: key is too long or contains invalid characters')
  }
}

/**
 * Returns whether memcached accepts the key: at most 250 bytes, with neither spaces nor control characters.
 */
export function isLegalKey(key: string): boolean {
  if (key.length > maxKeyBytes || !legalCharacters.test(key)) return false
  return key.length <= surelyShort || Buffer.byteLength(key) <= maxKeyBytes
}
