import { STATUS_CODES } from '../net/node-http.ts'

/** The answer of a handler. */
export interface Http1Answer {
  readonly head: AnswerHead
  /** Text is sent as UTF-8. Left out for an empty body. */
  readonly body?: string | Uint8Array
}

/** A status with its headers, validated and encoded once for any number of answers. */
export interface AnswerHead {
  /** 200 to 599. */
  readonly status: number
  /** The status line and the headers, without those that the server adds. */
  readonly lines: string
}

const ownHeaders = /^(?:connection|content-length|date|keep-alive|trailer|transfer-encoding|upgrade)$/i
const fieldName = /^[!#$%&'*+.^_`|~0-9A-Za-z-]+$/
const fieldText = /^[\t -~]*$/

/**
 * Creates the head of an answer.
 *
 * @param status 200 to 599
 * @param headers in ASCII. The server adds the framing, `Connection` and `Date`
 * @throws TypeError for an invalid status or header
 */
export function answerHead(status: number, headers: Readonly<Record<string, string>> = {}): AnswerHead {
  if (!Number.isInteger(status) || status < 200 || status > 599) {
    throw new TypeError(`an answer's status is ${status}, it must be 200 to 599`)
  }
  let lines = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n`
  for (const [name, value] of Object.entries(headers)) lines += headerLine(name, value)
  return { status, lines }
}

function headerLine(name: string, value: string): string {
  if (!fieldName.test(name)) throw new TypeError('the name of an answer’s header is not a token')
  if (ownHeaders.test(name)) {
    throw new TypeError(`an answer has the header ${name}, which the server adds`)
  }
  if (fieldText.test(value)) return `${name}: ${value}\r\n`
  throw new TypeError(`an answer's header ${name} has a character that is not printable ASCII`)
}

/** Returns whether answers with this status have a body and a length (RFC 9110, 8.6). */
export function mayHaveBody(status: number): boolean {
  return status !== 204 && status !== 304
}
