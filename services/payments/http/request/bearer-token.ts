import { createHash, timingSafeEqual } from 'node:crypto'

/**
 * Whether a request's Authorization header shows this bearer token (RFC 6750). Compared by their hashes,
 * which have one length, in constant time.
 */
export function hasBearerToken(authorization: string | undefined, token: string): boolean {
  const [, given = ''] = /^bearer +(\S+)$/i.exec(authorization ?? '') ?? []
  const hash = (text: string) => createHash('sha256').update(text).digest()
  return timingSafeEqual(hash(given), hash(token))
}
