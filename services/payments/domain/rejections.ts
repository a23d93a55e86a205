import {
  type ProcessingError,
  type ProcessingErrorCode,
  processingError,
} from './transaction/processing-errors.ts'

/** The errors of the API. Codes and statuses are those of the public API. */
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

export interface Rejection {
  readonly code: RejectionCode
  readonly status: number
  readonly message: string
  /** The invalid fields of an `invalid_request`. Empty for other codes. */
  readonly fields: readonly FieldError[]
  /** The cause of a `processing_error`; null for other codes. */
  readonly processingError: ProcessingError | null
  /** How long a client waits before the same request can succeed. Missing if that is not known. */
  readonly retryAfterMs?: number
}

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

export const done: Result<void> = accept(undefined)

export function mapResult<T, U>(result: Result<T>, convert: (value: T) => U): Result<U> {
  return result.ok ? accept(convert(result.value)) : result
}

export interface FieldError {
  /** The path of the invalid field, such as `company.country`. */
  readonly field: string
  readonly code: FieldErrorCode
  /** States the found value and what is allowed. Omits values that could be secret, such as card numbers. */
  readonly message: string
}

export const fieldErrorCodes = [
  'required',
  /** The value has the wrong type, such as a number instead of text. */
  'type',
  /** The value has the right type but not the form that the field requires. */
  'format',
  'too_small',
  'too_large',
  'too_long',
  'too_deep',
  'too_many',
  /** The value is well formed but not supported, such as a currency without payouts. */
  'unsupported',
  /** The input has no such field. */
  'unknown',
  /** An update sets a field that cannot change after the creation of the record. */
  'immutable',
  /** The value does not fit the record that it concerns, such as a currency that is not the transaction's. */
  'mismatch',
  'expired',
  /** The text could contain a card number, which must not be stored. */
  'card_number',
  /** The field excludes another field of the input: only one of them is allowed. */
  'exclusive',
] as const
export type FieldErrorCode = (typeof fieldErrorCodes)[number]

/** @param message replaces the default message of the code */
export function reject(
  code: RejectionCode,
  message: string = rejections[code].message,
  details: Partial<Rejection> = {},
): Rejected {
  const { status } = rejections[code]
  return { ok: false, rejection: { code, status, message, fields: [], processingError: null, ...details } }
}

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
