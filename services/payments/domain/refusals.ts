import {
  type ProcessingError,
  type ProcessingErrorCode,
  processingError,
} from './transaction/processing-errors.ts'

/**
 * Every error of the API by its code, with the HTTP status and the message of its answer. The codes are the
 * specification's 4xx and 5xx, the statuses those of the public API.
 */
export const refusals = {
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

type RefusalCode = keyof typeof refusals

/** An answer other than success, as a value. */
export interface Refusal {
  readonly code: RefusalCode
  readonly status: number
  readonly message: string
  /** The invalid fields of an `invalid_request`. Empty for other codes. */
  readonly fields: readonly FieldError[]
  /** The cause of a `processing_error`; null for other codes. */
  readonly processingError: ProcessingError | null
  /** The time after which the same request can succeed, for `too_many_requests`, if it is known. */
  readonly retryAfterMs?: number
}

/** The result of a function that refuses. */
export interface Refused {
  readonly refusal: Refusal
}

/** One field that is wrong. */
export interface FieldError {
  /** Its path, `company.country`. */
  readonly field: string
  readonly code: FieldErrorCode
  /** Names the found and the allowed value. */
  readonly message: string
}

export const fieldErrorCodes = [
  'required',
  /** Text where a number belongs, or the like. */
  'type',
  /** The right type, but not of the form that the field has. */
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
  /** Fixed since the record was made. */
  'immutable',
  /** Does not fit the other record that it has to fit. */
  'mismatch',
  /** The authorisation has run out. */
  'expired',
  /** Has what could be the number of a card, where none may be stored. */
  'card_number',
  /** Fields of which only one may be there. */
  'exclusive',
] as const
export type FieldErrorCode = (typeof fieldErrorCodes)[number]

/** `message` replaces the catalogue's where more can be said. */
export function refuse(code: RefusalCode, message: string = refusals[code].message): Refused {
  return { refusal: { code, status: refusals[code].status, message, fields: [], processingError: null } }
}

/** Too many requests, until that time has passed. */
export function refuseFor(retryAfterMs: number, message: string): Refused {
  return { refusal: { ...refuse('too_many_requests', message).refusal, retryAfterMs } }
}

export function refuseFields(fields: readonly FieldError[]): Refused {
  const { refusal } = refuse('invalid_request')
  return { refusal: { ...refusal, fields } }
}

export function refuseField(field: string, code: FieldErrorCode, message: string): Refused {
  return refuseFields([{ field, code, message }])
}

export function refuseProcessing(code: ProcessingErrorCode): Refused {
  const { refusal } = refuse('processing_error')
  return { refusal: { ...refusal, processingError: processingError(code) } }
}

/** Checks the status too, because an input of a caller can have a field `refusal`. */
export function isRefused(outcome: object): outcome is Refused {
  const refusal = 'refusal' in outcome ? outcome.refusal : undefined
  return (
    typeof refusal === 'object' &&
    refusal !== null &&
    'status' in refusal &&
    typeof refusal.status === 'number'
  )
}
