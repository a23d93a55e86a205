import { createHash, timingSafeEqual } from 'node:crypto'
import type { Metadata } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Route, RouteRight } from '../routes/route.ts'

export type TokenHash = Uint8Array | undefined

/** Returns the hash of the token in the `authorization` metadata; see `hashBearer`. */
export function hashToken(metadata: Metadata): TokenHash {
  const [value] = metadata.get('authorization') ?? []
  return typeof value === 'string' ? hashBearer(value) : undefined
}

/**
 * Returns the SHA-256 of the token in `Bearer …` (RFC 6750), whose scheme is case-insensitive; undefined for
 * any other text.
 */
export function hashBearer(authorization: string | undefined): TokenHash {
  const token = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
  return token === undefined ? undefined : createHash('sha256').update(token).digest()
}

/** Returns whether a caller has the right. A route without tokens for a right grants it to everyone. */
export function admits({ tokens }: Route, right: RouteRight, hash: TokenHash): boolean {
  return tokens[right].length === 0 || includesHash(tokens[right], hash)
}

/**
 * Returns whether the hash is expected. The time does not depend on which of the expected hashes is found.
 */
export function includesHash(expected: readonly Uint8Array[], hash: TokenHash): boolean {
  if (hash === undefined) return false
  let found = false
  for (const one of expected) {
    if (one.length === hash.length && timingSafeEqual(one, hash)) found = true
  }
  return found
}

/** Returns the error for a caller without the right; undefined for a caller with the right. */
export function findRejection(route: Route, right: RouteRight, hash: TokenHash): GrpcError | undefined {
  if (admits(route, right, hash)) return undefined
  const name = route.guards?.[right] ?? route.name
  return hash === undefined
    ? new GrpcError('UNAUTHENTICATED', `the route ${name} requires a bearer token`)
    : new GrpcError('PERMISSION_DENIED', `the route ${name} does not accept this token`)
}
