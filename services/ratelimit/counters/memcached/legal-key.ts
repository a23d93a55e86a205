import { CountersError } from '../counters.ts'

/** The protocol's limit, in bytes of UTF-8. */
export const maxKeyBytes = 250

/** Below this length no key of UTF-16 units has more bytes than the limit. */
const surelyShort = Math.floor(maxKeyBytes / 3)

/** Neither empty, nor any of the bytes 0x00 to 0x20 and 0x7f. */
const legalCharacters = /^[!-~\u0080-\uffff]+$/

/**
 * A key that memcached cannot hold: the call is at fault, and the backend is well. The text is that of the
 * reference's client.
 */
export class MalformedKeyError extends CountersError {
  constructor() {
    super('malformed: key is too long or contains invalid characters')
  }
}

/** Whether memcached takes the key: at most 250 bytes, with neither spaces nor control characters. */
export function isLegalKey(key: string): boolean {
  if (key.length > maxKeyBytes || !legalCharacters.test(key)) return false
  return key.length <= surelyShort || Buffer.byteLength(key) <= maxKeyBytes
}
