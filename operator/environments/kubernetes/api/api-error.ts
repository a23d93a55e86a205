import { isObject } from '@tollway/chassis/is-object.ts'
import { shorten } from '@tollway/chassis/text.ts'

/**
 * The error of a failed call. The message contains the call and the answer, but no header and no body of the
 * request, and so no token.
 */
export class KubeApiError extends Error {
  override readonly name = 'KubeApiError'
  /** The HTTP status, or the code in a watch's error event; 0 without an answer. */
  readonly code: number
  /**
   * A word for the cause, from the API server (`Conflict`, `NotFound`, `Expired`) or from this client
   * (`Timeout`, `Unreachable`, `TooLarge`, `BadAnswer`).
   */
  readonly reason: string
  /** The wait in milliseconds that the API server asks for; undefined if it asks for none. */
  readonly retryAfterMs: number | undefined

  constructor(code: number, reason: string, message: string, retryAfterMs?: number) {
    super(message)
    this.code = code
    this.reason = reason
    this.retryAfterMs = retryAfterMs
  }
}

const maxMessageLength = 1_001

/**
 * Returns the error for an answer, whose body is a Status object or anything else.
 *
 * @param call the request, for the message: `DELETE /api/v1/namespaces/shop`
 * @param withhold whether the server's text may contain secrets and must not be shown
 */
export function statusError(
  call: string,
  code: number,
  status: unknown,
  options: { readonly retryAfterMs?: number | undefined; readonly withhold?: boolean } = {},
): KubeApiError {
  const fields = isObject(status) ? status : {}
  const reason =
    typeof fields['reason'] === 'string' && fields['reason'] !== '' ? fields['reason'] : 'Unknown'
  const words = typeof fields['message'] === 'string' ? fields['message'] : describeBody(status)
  const said = options.withhold
    ? 'the message is withheld, because it may contain a secret'
    : shorten(words, maxMessageLength)
  return new KubeApiError(code, reason, `${call}: ${code} ${reason}: ${said}`, options.retryAfterMs)
}

function describeBody(body: unknown): string {
  return typeof body === 'string' && body !== '' ? body : 'without a message'
}

/**
 * Returns the error for a broken connection. An error that is a `KubeApiError` already is returned unchanged.
 */
export function connectionError(call: string, error: unknown): KubeApiError {
  if (error instanceof KubeApiError) return error
  const { code, message } = error as NodeJS.ErrnoException
  const why = message === '' ? code : message
  return new KubeApiError(0, 'Unreachable', `${call}: the answer is incomplete: ${why}`)
}

export function isNotFound(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 404
}

/**
 * Returns whether the caller's roles do not allow the call. A policy or quota that rejects the content also
 * answers with 403, but with another message.
 */
export function isUnauthorized(error: unknown): boolean {
  return error instanceof KubeApiError && error.code === 403 && /\bcannot \w+ resource "/.test(error.message)
}
