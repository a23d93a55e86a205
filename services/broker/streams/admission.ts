import { createHash, timingSafeEqual } from 'node:crypto'
import type { Metadata } from '@tollway/grpc/server.ts'
import { GrpcError } from '@tollway/grpc/status.ts'
import type { Right, Route } from '../routes/route.ts'

/** The SHA-256 of the caller's bearer token; undefined without a token. */
export type TokenHash = Uint8Array | undefined

/** Reads `authorization: Bearer …` (RFC 6750). The scheme is case-insensitive. */
export function hashToken(metadata: Metadata): TokenHash {
  const [value] = metadata.get('authorization') ?? []
  const token = typeof value === 'string' ? /^bearer +(\S+) *$/i.exec(value)?.[1] : undefined
  return token === undefined ? undefined : createHash('sha256').update(token).digest()
}

/** Whether the route grants the right to the caller. Compares in constant time. */
export function admits({ tokens }: Route, right: Right, hash: TokenHash): boolean {
  const tokenHashes = tokens[right]
  if (tokenHashes.length === 0) return true
  if (hash === undefined) return false
  let admitted = false
  for (const expected of tokenHashes) {
    if (expected.length === hash.length && timingSafeEqual(expected, hash)) admitted = true
  }
  return admitted
}

/** The error of a caller to which the route does not grant the right. */
export function refusal(route: Route, right: Right, hash: TokenHash): GrpcError {
  const name = route.guards?.[right] ?? route.name
  return hash === undefined
    ? new GrpcError('UNAUTHENTICATED', `the route ${name} asks for a bearer token`)
    : new GrpcError('PERMISSION_DENIED', `the route ${name} does not admit this token`)
}
