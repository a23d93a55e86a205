import { type Refused, refuse } from '../domain/refusals.ts'
import { StorageError } from '../storage/storage.ts'

/** The refusals of requests that fastify or Node rejects before they reach an endpoint. */
const refusalsOfServer: Readonly<Record<string, Refused>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: refuse('body_too_large'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: refuse('unsupported_media_type'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: refuse('malformed_body'),
  FST_ERR_CTP_EMPTY_TYPE: refuse('unsupported_media_type'),
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: refuse('unsupported_media_type'),
  FST_ERR_BAD_URL: refuse('not_found'),
  FST_ERR_MAX_PARAM_LENGTH: refuse('not_found'),
  FST_ERR_INVALID_URL: refuse('not_found'),
  ECONNRESET: refuse('malformed_body', 'The connection was closed before the end of the body.'),
}

/** Carries a refusal out of a place that can only throw. */
export class RefusedError extends Error {
  readonly refused: Refused

  constructor(refused: Refused) {
    super(refused.refusal.message)
    this.refused = refused
  }
}

/**
 * The refusal of an error, if it is one of the caller's or of the database; undefined for a
 * defect, which is to be logged and answered with 500.
 */
export function refusalOf(error: unknown): Refused | undefined {
  if (error instanceof RefusedError) return error.refused
  if (error instanceof StorageError) return refusalOfStorage(error)
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && Object.hasOwn(refusalsOfServer, code)
    ? refusalsOfServer[code]
    : undefined
}

function refusalOfStorage({ code }: StorageError): Refused | undefined {
  if (code === 'commit-unknown') {
    const message = 'It is not known whether this was done. Look, or repeat it with the same Idempotency-Key.'
    return refuse('unavailable', message)
  }
  const passes = code === 'unavailable' || code === 'contention' || code === 'timeout'
  return passes ? refuse('unavailable') : undefined
}
