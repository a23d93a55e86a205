import type { Http1Limits } from '../limits.ts'
import { Refusal } from '../refusal.ts'
import { BodyReader } from './body-reader.ts'
import { FieldLines } from './field-lines.ts'
import { FramingFields } from './framing-fields.ts'
import { HeaderCache, type RequestHead } from './header-cache.ts'
import { carriageReturn } from './octets.ts'
import { ReceiveWindow } from './receive-window.ts'
import { ParsedRequest } from './request.ts'
import { isEmptyLine, RequestLine } from './request-line.ts'

export type ParserLimits = Pick<
  Http1Limits,
  'maxHeadBytes' | 'maxHeaders' | 'maxTargetBytes' | 'maxBodyBytes'
>

/** The expected input: a request, the rest of a request's head, or the rest of its body. */
export type ParserPhase = 'idle' | 'head' | 'body'

/**
 * Parses requests of HTTP/1.1 and 1.0 (RFC 9112) from the received chunks, which must not be overwritten
 * afterwards. The result does not depend on how the octets are split into chunks.
 *
 * The parser is strict: where the standard has one form and tolerates others, it accepts only that form, so
 * that it never parses the octets differently than a proxy in front of it.
 */
export class RequestParser {
  readonly #limits: ParserLimits
  readonly #window = new ReceiveWindow()
  readonly #line = new RequestLine()
  readonly #fields: FieldLines
  readonly #framing = new FramingFields()
  readonly #body: BodyReader
  readonly #memory = new HeaderCache()
  /** The offset of the headers from the beginning of the request; 0 before the first line is complete. */
  #fieldsStart = 0
  /** The request whose head is complete and whose body is not. */
  #current: ParsedRequest | undefined
  #owesContinue = false
  #refused = false

  constructor(limits: ParserLimits) {
    const framing = this.#framing
    this.#limits = limits
    this.#body = new BodyReader(limits)
    this.#fields = new FieldLines(limits.maxHeaders, (bytes, start, colonAt, end) =>
      framing.note(bytes, start, colonAt, end),
    )
  }

  push(chunk: Buffer): void {
    this.#window.push(chunk)
  }

  /**
   * Returns the next complete request, or its error; undefined when more bytes are needed, and always after
   * an error.
   */
  next(): ParsedRequest | Refusal | undefined {
    if (this.#refused) return undefined
    try {
      return this.#next()
    } catch (error) {
      if (!(error instanceof Refusal)) throw error
      this.#refused = true
      return error
    }
  }

  get phase(): ParserPhase {
    if (this.#current !== undefined) return 'body'
    return this.#window.at === this.#window.end ? 'idle' : 'head'
  }

  /** The memory in bytes of an incomplete request. */
  get heldBytes(): number {
    return this.#window.heldBytes + this.#body.heldBytes
  }

  /** Drops the received bytes; no request follows. */
  clear(): void {
    this.#refused = true
    this.#window.clear()
    this.#body.clear()
  }

  /**
   * Returns whether a `100 Continue` must be sent now (RFC 9110, 10.1.1). True at most once for a request.
   */
  takeContinue(): boolean {
    const owes = this.#owesContinue && this.#window.at === this.#window.end
    if (owes) this.#owesContinue = false
    return owes
  }

  #next(): ParsedRequest | undefined {
    const window = this.#window
    if (window.at === window.end) return undefined
    const request = this.#current ?? this.#readHead(window)
    if (request === undefined) return undefined
    if (this.#current !== undefined) {
      if (window.at < window.end) this.#owesContinue = false
      const body = this.#body.read(window)
      if (body === undefined) {
        window.releaseRead()
        return undefined
      }
      request.body = body
      this.#current = undefined
      this.#owesContinue = false
    }
    window.releaseRead()
    return request
  }

  /** Returns a request whose head is complete; one with a body becomes the current one. */
  #readHead(window: ReceiveWindow): ParsedRequest | undefined {
    const { bytes, at, end } = window
    const known = this.#fieldsStart === 0 ? this.#memory.find(bytes, at, end) : undefined
    if (known !== undefined) {
      // A part of the first line may have been parsed already, from a chunk that ended there.
      this.#line.begin()
      window.at = at + known.bodyStart
      const request = new ParsedRequest(known, bytes, at)
      if (known.contentLength > 0) this.#beginBody(request, false, false)
      return request
    }
    if (this.#fieldsStart === 0 && !this.#readLine(window)) return undefined
    return this.#readFields(window)
  }

  #readFields(window: ReceiveWindow): ParsedRequest | undefined {
    const { bytes, at: start } = window
    const end = this.#headEnd(window)
    const bodyStart = this.#fields.read(bytes, start, end)
    if (bodyStart === 0) {
      this.#checkHeadSize(window, end)
      return undefined
    }
    const framing = this.#framing
    const head = this.#headOf(bodyStart - start)
    if (!framing.chunked && !framing.expectsContinue) this.#memory.keep(head, bytes, start)
    const request = new ParsedRequest(head, bytes, start)
    window.at = bodyStart
    this.#fieldsStart = 0
    this.#line.begin()
    if (framing.chunked || head.contentLength > 0) {
      this.#beginBody(request, framing.chunked, framing.expectsContinue)
    }
    return request
  }

  /** @throws Refusal when the combination of headers is not allowed */
  #headOf(bodyStart: number): RequestHead {
    const { method, target, minorVersion } = this.#line
    const framing = this.#framing
    framing.check(minorVersion)
    return {
      method,
      target,
      closes: framing.closes(minorVersion),
      asksToKeep: framing.asksToKeep,
      contentLength: framing.contentLength ?? 0,
      fieldsStart: this.#fieldsStart,
      bodyStart,
    }
  }

  #readLine(window: ReceiveWindow): boolean {
    while (window.end - window.at > 1 && isEmptyLine(window.bytes, window.at)) window.at += 2
    const { bytes, at: start } = window
    const end = this.#headEnd(window)
    if (end - start === 1 && bytes[start] === carriageReturn) return false
    const lineEnd = this.#line.read(bytes, start, end, this.#limits.maxTargetBytes)
    if (lineEnd === 0) {
      this.#checkHeadSize(window, end)
      window.releaseRead()
      return false
    }
    this.#fieldsStart = lineEnd - start
    this.#fields.begin(this.#fieldsStart)
    this.#framing.begin()
    return true
  }

  #headEnd({ at, end }: ReceiveWindow): number {
    return Math.min(end, at + this.#limits.maxHeadBytes)
  }

  #checkHeadSize({ at }: ReceiveWindow, end: number): void {
    const { maxHeadBytes } = this.#limits
    if (end - at < maxHeadBytes) return
    throw new Refusal(431, `the request line and the headers are longer than ${maxHeadBytes} bytes`)
  }

  #beginBody(request: ParsedRequest, chunked: boolean, expectsContinue: boolean): void {
    if (chunked) this.#body.beginChunked()
    else this.#body.beginFixed(request.head.contentLength)
    this.#current = request
    this.#owesContinue = expectsContinue
  }
}
