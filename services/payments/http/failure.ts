import { type Rejected, reject } from '../domain/rejections.ts'
import { StorageError } from '../storage/storage.ts'

/** The answers to requests that Fastify or Node rejects before an endpoint runs, by error code. */
const serverRejections: Readonly<Record<string, Rejected>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: reject('body_too_large'),
  FST_ERR_CTP_INVALID_MEDIA_TYPE: reject('unsupported_media_type'),
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: reject('malformed_body'),
  FST_ERR_CTP_EMPTY_TYPE: reject('unsupported_media_type'),
  FST_ERR_ROUTE_MISSING_CONTENT_TYPE: reject('unsupported_media_type'),
  FST_ERR_BAD_URL: reject('not_found'),
  FST_ERR_MAX_PARAM_LENGTH: reject('not_found'),
  FST_ERR_INVALID_URL: reject('not_found'),
  ECONNRESET: reject('malformed_body', 'The connection was closed before the end of the body.'),
}

/** An error with a rejection, for a Fastify hook, which can end a request only by throwing. */
export class RejectedError extends Error {
  readonly rejected: Rejected

  constructor(rejected: Rejected) {
    super(rejected.rejection.message)
    this.rejected = rejected
  }
}

/**
 * Returns the answer to an error that the caller or the database caused. Returns undefined for any other
 * error, which is a defect of the program: it is logged and answered with 500.
 */
export function toRejection(error: unknown): Rejected | undefined {
  if (error instanceof RejectedError) return error.rejected
  if (error instanceof StorageError) return toStorageRejection(error)
  const { code } = (error ?? {}) as { readonly code?: unknown }
  return typeof code === 'string' && Object.hasOwn(serverRejections, code)
    ? serverRejections[code]
    : undefined
}

function toStorageRejection({ code }: StorageError): Rejected | undefined {
  if (code === 'commit-unknown') {
    const message =
      'The outcome is unknown. Repeat the request with the same Idempotency-Key, or read the record.'
    return reject('unavailable', message)
  }
  const passes = code === 'unavailable' || code === 'contention' || code === 'timeout'
  return passes ? reject('unavailable') : undefined
}
