import { Refusal } from '../refusal.ts'
import { fieldValue, isFieldName, tab } from './octets.ts'

/** JavaScript's white space includes more than HTTP's. */
const listSeparator = /[ \t]*,[ \t]*/

/**
 * The headers that determine the end of a request and of its connection. Headers that two servers may parse
 * differently are rejected, so that no request can be hidden in another (RFC 9112, 6.3 and 11.2).
 */
export class FramingFields {
  /** The body's length; undefined without a Content-Length. */
  contentLength: number | undefined
  /** The body is sent in chunks. */
  chunked = false
  /** The client waits for a `100 Continue` before it sends the body. */
  expectsContinue = false
  #hosts = 0
  #close = false
  #keepAlive = false
  #unknownExpectation = false

  begin(): void {
    this.contentLength = undefined
    this.chunked = false
    this.expectsContinue = false
    this.#hosts = 0
    this.#close = false
    this.#keepAlive = false
    this.#unknownExpectation = false
  }

  /** Most names differ from these already in their length. */
  note(bytes: Buffer, start: number, colonAt: number, end: number): void {
    const nameBytes = colonAt - start
    if (nameBytes === 4) {
      if (isFieldName(bytes, start, 'host')) this.#hosts += 1
    } else if (nameBytes === 6) {
      if (isFieldName(bytes, start, 'expect')) this.#noteExpect(lowerValue(bytes, colonAt, end))
    } else if (nameBytes === 10) {
      if (isFieldName(bytes, start, 'connection')) this.#noteConnection(lowerValue(bytes, colonAt, end))
    } else if (nameBytes === 14) {
      if (isFieldName(bytes, start, 'content-length')) this.#noteLength(fieldValue(bytes, colonAt + 1, end))
    } else if (nameBytes === 17) {
      if (isFieldName(bytes, start, 'transfer-encoding'))
        this.#noteCoding(lowerValue(bytes, colonAt, end), bytes[end - 1])
    }
  }

  /** @throws Refusal when the combination of headers is not allowed */
  check(minorVersion: number): void {
    if (this.chunked && this.contentLength !== undefined) {
      throw new Refusal(400, 'there are both a Content-Length and a Transfer-Encoding')
    }
    if (this.chunked && minorVersion === 0) {
      throw new Refusal(400, 'there is a Transfer-Encoding in a request of HTTP/1.0')
    }
    if (this.#hosts > 1 || (this.#hosts === 0 && minorVersion === 1)) {
      throw new Refusal(400, `there are ${this.#hosts} headers of name Host, there must be 1`)
    }
    if (minorVersion === 0) this.expectsContinue = false
    else if (this.#unknownExpectation) throw new Refusal(417, 'only 100-continue can be expected')
  }

  /** Returns whether the connection ends with the answer. */
  closes(minorVersion: number): boolean {
    return this.#close || (minorVersion === 0 && !this.#keepAlive)
  }

  get asksToKeep(): boolean {
    return this.#keepAlive
  }

  #noteLength(value: string): void {
    if (this.contentLength !== undefined) throw new Refusal(400, 'there is more than one Content-Length')
    if (!/^\d+$/.test(value)) throw new Refusal(400, 'the Content-Length is not a number')
    this.contentLength = Number(value)
  }

  /** Some servers treat a trailing tab as white space, others as part of the value. */
  #noteCoding(value: string, lastOctet: number | undefined): void {
    if (this.chunked) throw new Refusal(400, 'there is more than one Transfer-Encoding')
    if (value !== 'chunked' || lastOctet === tab)
      throw new Refusal(501, 'the Transfer-Encoding is not chunked')
    this.chunked = true
  }

  #noteConnection(value: string): void {
    for (const option of value.split(listSeparator)) {
      if (option === 'close') this.#close = true
      else if (option === 'keep-alive') this.#keepAlive = true
    }
  }

  #noteExpect(value: string): void {
    if (value === '100-continue') this.expectsContinue = true
    else this.#unknownExpectation = true
  }
}

function lowerValue(bytes: Buffer, colonAt: number, end: number): string {
  return fieldValue(bytes, colonAt + 1, end).toLowerCase()
}
