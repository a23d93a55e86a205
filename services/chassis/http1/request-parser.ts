import { BodyReader } from './body-reader.ts'
import { FieldLines } from './field-lines.ts'
import { FramingFields } from './framing-fields.ts'
import { HeadMemory, type RequestHead } from './head-memory.ts'
import type { Http1Limits } from './limits.ts'
import { carriageReturn } from './octets.ts'
import { ReceiveWindow } from './receive-window.ts'
import { Refusal } from './refusal.ts'
import { ParsedRequest } from './request.ts'
import { isEmptyLine, RequestLine } from './request-line.ts'

export type ParserLimits = Pick<
  Http1Limits,
  'maxHeadBytes' | 'maxHeaders' | 'maxTargetBytes' | 'maxBodyBytes'
>

/** What it waits for: a request, the rest of a request's head, or the rest of its body. */
export type ParserPhase = 'idle' | 'head' | 'body'

/**
 * Reads requests of HTTP/1.1 and 1.0 (RFC 9112) from the chunks that a connection receives, where they lie:
 * what is pushed must not be written to again. How the octets are split into chunks makes no difference.
 *
 * It is strict: one way to write a request is taken where the standard has one and leaves others to mercy, so
 * that it never reads anything else into the octets than a proxy before it.
 */
export class RequestParser {
  readonly #limits: ParserLimits
  readonly #window = new ReceiveWindow()
  readonly #line = new RequestLine()
  readonly #fields: FieldLines
  readonly #framing = new FramingFields()
  readonly #body: BodyReader
  readonly #memory = new HeadMemory()
  /** Where the headers begin, from the beginning of the request; 0 before its first line is complete. */
  #fieldsStart = 0
  /** Its head is complete, its body is not. */
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
   * The next request that is complete, or what is wrong with it; undefined when more must be pushed, and
   * always after something was wrong.
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

  /** How much memory a request that is not complete keeps. */
  get heldBytes(): number {
    return this.#window.heldBytes + this.#body.heldBytes
  }

  /** Forgets what has come; no request follows. */
  clear(): void {
    this.#refused = true
    this.#window.clear()
    this.#body.clear()
  }

  /** Whether a `100 Continue` should go out now (RFC 9110, 10.1.1). True once at most for a request. */
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

  /** Returns a request whose head is complete; one with a body is then the current one. */
  #readHead(window: ReceiveWindow): ParsedRequest | undefined {
    const { bytes, at, end } = window
    const known = this.#fieldsStart === 0 ? this.#memory.find(bytes, at, end) : undefined
    if (known !== undefined) {
      // A part of its first line may have been read already, from a chunk that ended there.
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

  /** @throws Refusal when the headers do not go together */
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
