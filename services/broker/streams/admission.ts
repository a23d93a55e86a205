import { createHash, timingSafeEqual } from 'node:crypto'
import type { Metadata } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Route, RouteRight } from '../routes/route.ts'

/** The SHA-256 of the caller's bearer token; undefined without a token. */
export type TokenHash = Uint8Array | undefined

/** Reads the bearer token of the `authorization` metadata, as `hashBearer` does. */
export function hashToken(metadata: Metadata): TokenHash {
  const [value] = metadata.get('authorization') ?? []
  return typeof value === 'string' ? hashBearer(value) : undefined
}

/** Reads `authorization: Bearer …` (RFC 6750). The scheme is case-insensitive. */
export function hashBearer(authorization: string | undefined): TokenHash {
  const token = /^bearer +(\S+) *$/i.exec(authorization ?? '')?.[1]
  return token === undefined ? undefined : createHash('sha256').update(token).digest()
}

/** Whether the route grants the right to the caller. */
export function admits({ tokens }: Route, right: RouteRight, hash: TokenHash): boolean {
  return tokens[right].length === 0 || includesHash(tokens[right], hash)
}

/** Whether the hash is one of the expected ones. Compares in constant time. */
export function includesHash(expected: readonly Uint8Array[], hash: TokenHash): boolean {
  if (hash === undefined) return false
  let found = false
  for (const one of expected) {
    if (one.length === hash.length && timingSafeEqual(one, hash)) found = true
  }
  return found
}

/** Returns the error of a caller to which the route does not grant the right; undefined if it does. */
export function findRejection(route: Route, right: RouteRight, hash: TokenHash): GrpcError | undefined {
  if (admits(route, right, hash)) return undefined
  const name = route.guards?.[right] ?? route.name
  return hash === undefined
    ? new GrpcError('UNAUTHENTICATED', `the route ${name} requires a bearer token`)
    : new GrpcError('PERMISSION_DENIED', `the route ${name} does not accept this token`)
}
