/** All errors by their codes, in the order of docs/reference/broker-admin-errors.md. */
export const adminErrors = {
  invalid: {
    status: 400,
    meaning: 'A parameter or an id is not valid, or the bytes are no HTTP request.',
    action: 'Correct what the message names.',
  },
  unauthenticated: {
    status: 401,
    meaning: 'The bearer token is missing, or not one of the file.',
    action: 'Send `Authorization: Bearer TOKEN` with a token of `ADMIN_TOKEN_FILE`.',
  },
  'not-found': {
    status: 404,
    meaning: 'There is no such path, or no request with the key.',
    action: 'Take a path of the message, or a `key` of `GET /streams`.',
  },
  method: { status: 405, meaning: 'The method is not `GET` or `DELETE`.', action: 'Use one of these.' },
  deadline: {
    status: 408,
    meaning: 'The request has not arrived within 10 s.',
    action: 'Send it again.',
  },
  body: { status: 413, meaning: 'The request has a body.', action: 'Send it without a body.' },
  'too-many': {
    status: 429,
    meaning: 'The address has sent too many wrong tokens.',
    action: 'Repeat the request after the time in `Retry-After`.',
  },
  'too-large': {
    status: 431,
    meaning: 'The path and the headers have more than 16 KiB.',
    action: 'Send less.',
  },
  'no-tokens': {
    status: 503,
    meaning: 'The file of tokens is missing or not valid, so no token is accepted.',
    action: 'Repair the file; the log of the broker has the reason.',
  },
  'too-many-watches': {
    status: 503,
    meaning: 'As many calls watch the streams as are allowed.',
    action: 'End a watch, or ask another broker.',
  },
  'preview-failed': {
    status: 503,
    meaning: 'The preview cannot be made now.',
    action: 'Repeat the request; the message has the cause.',
  },
  'log-failed': {
    status: 503,
    meaning: 'The stream log (Redis) does not take the interruption.',
    action: 'Repeat the request when the log answers; the message has the cause.',
  },
} as const satisfies Readonly<Record<string, { status: number; meaning: string; action: string }>>

export type AdminErrorCode = keyof typeof adminErrors

/** An error that the debug server answers as text, and the admin API as JSON. */
export class PageError extends Error {
  override readonly name = 'PageError'
  readonly code: AdminErrorCode
  readonly status: number
  readonly headers: Readonly<Record<string, string>>

  constructor(code: AdminErrorCode, message: string, headers: Readonly<Record<string, string>> = {}) {
    super(message)
    this.code = code
    this.status = adminErrors[code].status
    this.headers = headers
  }
}
