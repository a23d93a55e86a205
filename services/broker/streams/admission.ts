import { createHash, timingSafeEqual } from 'node:crypto'
import type { Metadata } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Route } from '../routes/route.ts'

/** The SHA-256 of the caller's bearer token; undefined without a token. */
export type TokenHash = Uint8Array | undefined

/** Reads `authorization: Bearer …` (RFC 6750). The scheme is case-insensitive. */
export function hashToken(metadata: Metadata): TokenHash {
  const [value] = metadata.get('authorization') ?? []
  const token = typeof value === 'string' ? /^bearer +(\S+) *$/i.exec(value)?.[1] : undefined
  return token === undefined ? undefined : createHash('sha256').update(token).digest()
}

/** Whether the route accepts the caller. Compares in constant time. */
export function admits({ tokenHashes }: Route, hash: TokenHash): boolean {
  if (tokenHashes.length === 0) return true
  if (hash === undefined) return false
  let admitted = false
  for (const expected of tokenHashes) {
    if (expected.length === hash.length && timingSafeEqual(expected, hash)) admitted = true
  }
  return admitted
}

/** The error of a caller that the route does not accept. */
export function refusal(route: Route, hash: TokenHash): GrpcError {
  const name = route.guard ?? route.name
  return hash === undefined
    ? new GrpcError('UNAUTHENTICATED', `the route ${name} asks for a bearer token`)
    : new GrpcError('PERMISSION_DENIED', `the route ${name} does not admit this token`)
}
