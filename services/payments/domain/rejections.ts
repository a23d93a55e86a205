import {
  type ProcessingError,
  type ProcessingErrorCode,
  processingError,
} from './transaction/processing-errors.ts'

/**
 * Every error of the API by its code, with the HTTP status and the message of its answer. Codes and
 * statuses are those of the public API.
 */
export const rejections = {
  invalid_request: { status: 400, message: 'Some fields are missing or not valid.' },
  malformed_body: { status: 400, message: 'The body does not match its content type.' },
  invalid_idempotency_key: {
    status: 400,
    message: 'The Idempotency-Key must have 1 to 255 printable characters.',
  },
  weak_idempotency_key: {
    status: 400,
    message:
      'This Idempotency-Key protects a secret: it must be a UUID of version 4 or have 128 random bits.',
  },
  processing_error: { status: 400, message: 'The payment was declined.' },
  test_mode_mixed: { status: 400, message: 'Test and live records cannot be used together.' },
  unauthorized: { status: 401, message: 'The API key is missing or not valid.' },
  forbidden: { status: 403, message: 'This app has no permission for this request.' },
  signup_closed: { status: 403, message: 'Creating apps is disabled.' },
  not_found: { status: 404, message: 'Not found, or this app has no access to it.' },
  method_not_allowed: { status: 405, message: 'Method not allowed.' },
  not_acceptable: { status: 406, message: 'Responses are application/json only.' },
  merchant_closed: { status: 409, message: 'The merchant is closed and accepts no new payment.' },
  conflict: { status: 409, message: 'The record was changed by another request. Read it again.' },
  dispute_resolved: { status: 409, message: 'The dispute is already resolved.' },
  idempotency_in_progress: {
    status: 409,
    message: 'A request with this Idempotency-Key is still in progress.',
  },
  body_too_large: { status: 413, message: 'The body is larger than the limit.' },
  unsupported_media_type: {
    status: 415,
    message: 'The content type must be application/json or application/x-www-form-urlencoded.',
  },
  idempotency_mismatch: { status: 422, message: 'This Idempotency-Key was used with a different request.' },
  too_many_requests: { status: 429, message: 'Too many requests. Retry after the time in Retry-After.' },
  internal_error: { status: 500, message: 'Internal error. The log has it under the request id.' },
  unavailable: { status: 503, message: 'Service unavailable. Try again later.' },
  rate_missing: { status: 503, message: 'No exchange rate is available for these currencies.' },
} as const satisfies Readonly<Record<string, { readonly status: number; readonly message: string }>>

type RejectionCode = keyof typeof rejections

/** Why a request is rejected, and the status of its answer. */
export interface Rejection {
  readonly code: RejectionCode
  readonly status: number
  readonly message: string
  /** The invalid fields of an `invalid_request`. Empty for other codes. */
  readonly fields: readonly FieldError[]
  /** The cause of a `processing_error`; null for other codes. */
  readonly processingError: ProcessingError | null
  /** The time after which the same request can succeed, if it is known. */
  readonly retryAfterMs?: number
}

/** What a function returns that can reject its input. */
export type Result<T> = Accepted<T> | Rejected

interface Accepted<T> {
  readonly ok: true
  readonly value: T
}

export interface Rejected {
  readonly ok: false
  readonly rejection: Rejection
}

export function accept<T>(value: T): Accepted<T> {
  return { ok: true, value }
}

/** The result of a function that only has an effect. */
export const done: Result<void> = accept(undefined)

/** Returns the result with its value converted. */
export function mapResult<T, U>(result: Result<T>, convert: (value: T) => U): Result<U> {
  return result.ok ? accept(convert(result.value)) : result
}

/** An invalid field. */
export interface FieldError {
  /** Its path, `company.country`. */
  readonly field: string
  readonly code: FieldErrorCode
  /** Names the found and the allowed value. */
  readonly message: string
}

export const fieldErrorCodes = [
  'required',
  /** The value has another type. */
  'type',
  /** The type is right, and the value does not have the form of the field. */
  'format',
  'too_small',
  'too_large',
  'too_long',
  'too_deep',
  'too_many',
  /** The form is valid, such as that of a currency, but the value is not served here. */
  'unsupported',
  /** The input has no such field. */
  'unknown',
  /** The field cannot change after the record was created. */
  'immutable',
  /** The value does not match another record. */
  'mismatch',
  /** The authorisation has expired. */
  'expired',
  /** The text could contain a card number, which must not be stored. */
  'card_number',
  /** Only one of several fields is allowed. */
  'exclusive',
] as const
export type FieldErrorCode = (typeof fieldErrorCodes)[number]

/** @param message replaces the message of the catalogue */
export function reject(
  code: RejectionCode,
  message: string = rejections[code].message,
  details: Partial<Rejection> = {},
): Rejected {
  const { status } = rejections[code]
  return { ok: false, rejection: { code, status, message, fields: [], processingError: null, ...details } }
}

/** Rejects one request too many. The next one can succeed after that time. */
export function rejectFor(retryAfterMs: number, message?: string): Rejected {
  return reject('too_many_requests', message, { retryAfterMs })
}

export function rejectFields(fields: readonly FieldError[]): Rejected {
  return reject('invalid_request', undefined, { fields })
}

export function rejectField(field: string, code: FieldErrorCode, message: string): Rejected {
  return rejectFields([{ field, code, message }])
}

export function rejectProcessing(code: ProcessingErrorCode): Rejected {
  return reject('processing_error', undefined, { processingError: processingError(code) })
}
