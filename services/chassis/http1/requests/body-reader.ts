import type { Http1Limits } from '../limits.ts'
import { Refusal } from '../refusal.ts'
import { ByteStore } from './byte-store.ts'
import { FieldLines } from './field-lines.ts'
import { carriageReturn, hexOctets, isFieldName, lineFeed, semicolon, skip, textOctets } from './octets.ts'
import type { ReceiveWindow } from './receive-window.ts'

export type BodyLimits = Pick<Http1Limits, 'maxBodyBytes' | 'maxHeadBytes' | 'maxHeaders'>

/** The line before a chunk: its size and extensions, which are ignored. */
const maxChunkLineBytes = 1024
/** RFC 9112, 7.1 and 7.1.1. */
const token = "[!#$%&'*+.^_`|~0-9A-Za-z-]+"
const quoted = '"(?:[\\t !#-\\[\\]-~\\x80-\\xff]|\\\\[\\t -~\\x80-\\xff])*"'
const chunkLine = new RegExp(`^([0-9A-Fa-f]+)(?:;${token}(?:=(?:${token}|${quoted}))?)*$`)

type Part = 'fixed' | 'chunk line' | 'chunk' | 'chunk end' | 'trailers'

/** Reads the bodies of consecutive requests, with a known length or in chunks. */
export class BodyReader {
  readonly #limits: BodyLimits
  readonly #store = new ByteStore()
  readonly #trailers: FieldLines
  #part: Part = 'fixed'
  /** The remaining bytes of the body, or of the chunk. */
  #bytesLeft = 0
  /** How much of a chunk's line was scanned. */
  #scan = 0

  constructor(limits: BodyLimits) {
    this.#limits = limits
    this.#trailers = new FieldLines(limits.maxHeaders, refuseHeadersOnly)
  }

  /** The memory in bytes of an incomplete body. */
  get heldBytes(): number {
    return this.#store.bytes.length
  }

  /** Drops all received bytes. */
  clear(): void {
    this.#store.take()
  }

  /** @throws Refusal 413 when the length exceeds the limit */
  beginFixed(bytes: number): void {
    this.#checkSize(bytes)
    this.#part = 'fixed'
    this.#bytesLeft = bytes
  }

  beginChunked(): void {
    this.#part = 'chunk line'
    this.#scan = 0
  }

  /**
   * Takes the bytes of the body from the window; returns the body once it is complete. A body of known length
   * within one chunk is not copied.
   *
   * @throws Refusal 413 when it is too long, 400 when its coding is invalid
   */
  read(window: ReceiveWindow): Buffer | undefined {
    if (this.#part === 'fixed') return this.#readFixed(window)
    for (;;) {
      if (this.#part === 'trailers') return this.#readTrailers(window)
      if (this.#part === 'chunk line' && !this.#readChunkLine(window)) return undefined
      if (this.#part === 'chunk' && !this.#readChunk(window)) return undefined
      if (this.#part === 'chunk end' && !this.#readChunkEnd(window)) return undefined
    }
  }

  #readFixed(window: ReceiveWindow): Buffer | undefined {
    const start = window.at
    if (this.#store.length === 0 && window.end - start >= this.#bytesLeft) {
      window.at += this.#bytesLeft
      return window.bytes.subarray(start, window.at)
    }
    return this.#readData(window) ? this.#store.take() : undefined
  }

  /** Returns whether all remaining bytes have arrived. */
  #readData(window: ReceiveWindow): boolean {
    const to = Math.min(window.end, window.at + this.#bytesLeft)
    this.#store.add(window.bytes, window.at, to)
    this.#bytesLeft -= to - window.at
    window.at = to
    return this.#bytesLeft === 0
  }

  #readChunkLine(window: ReceiveWindow): boolean {
    const { bytes, at: start } = window
    const limit = start + maxChunkLineBytes
    const end = Math.min(window.end, limit)
    const sizeEnd = skip(hexOctets, bytes, start, end)
    const lineEnd =
      bytes[sizeEnd] === semicolon ? skip(textOctets, bytes, this.#from(sizeEnd, start), end) : sizeEnd
    this.#scan = lineEnd - start
    if (lineEnd < end && (lineEnd === start || bytes[lineEnd] !== carriageReturn)) throw wrongChunkLine()
    if (lineEnd + 1 >= end) {
      if (end === limit)
        throw new Refusal(400, `the line before a chunk is longer than ${maxChunkLineBytes} bytes`)
      return false
    }
    if (bytes[lineEnd + 1] !== lineFeed) throw wrongChunkLine()
    this.#beginChunk(bytes.toString('latin1', start, lineEnd))
    window.at = lineEnd + 2
    return true
  }

  #from(sizeEnd: number, start: number): number {
    return Math.max(sizeEnd, start + this.#scan)
  }

  #beginChunk(line: string): void {
    const [, size] = chunkLine.exec(line) ?? []
    if (size === undefined) throw wrongChunkLine()
    this.#bytesLeft = Number.parseInt(size, 16)
    this.#checkSize(this.#store.length + this.#bytesLeft)
    this.#scan = 0
    this.#part = this.#bytesLeft === 0 ? 'trailers' : 'chunk'
    if (this.#bytesLeft === 0) this.#trailers.begin(0)
  }

  #readChunk(window: ReceiveWindow): boolean {
    if (!this.#readData(window)) return false
    this.#part = 'chunk end'
    return true
  }

  #readChunkEnd(window: ReceiveWindow): boolean {
    const { bytes, at, end } = window
    if (at < end && bytes[at] !== carriageReturn) throw wrongChunkEnd()
    if (at + 1 >= end) return false
    if (bytes[at + 1] !== lineFeed) throw wrongChunkEnd()
    window.at += 2
    this.#part = 'chunk line'
    return true
  }

  #readTrailers(window: ReceiveWindow): Buffer | undefined {
    const { maxHeadBytes } = this.#limits
    const end = Math.min(window.end, window.at + maxHeadBytes)
    const next = this.#trailers.read(window.bytes, window.at, end)
    if (next !== 0) {
      window.at = next
      return this.#store.take()
    }
    if (end === window.at + maxHeadBytes) {
      throw new Refusal(431, `the trailers are longer than ${maxHeadBytes} bytes`)
    }
    return undefined
  }

  #checkSize(bytes: number): void {
    const { maxBodyBytes } = this.#limits
    if (bytes > maxBodyBytes) throw new Refusal(413, `the body is longer than ${maxBodyBytes} bytes`)
  }
}

const headersOnly = ['content-length', 'transfer-encoding', 'connection', 'host']

/** A server that merges trailers into the headers would read the request differently (RFC 9110, 6.5.1). */
function refuseHeadersOnly(bytes: Buffer, start: number): void {
  for (const name of headersOnly) {
    if (isFieldName(bytes, start, name)) throw new Refusal(400, `a trailer has the name ${name}`)
  }
}

const wrongChunkLine = () => new Refusal(400, 'a chunk does not begin with its size')
const wrongChunkEnd = () => new Refusal(400, 'a chunk is longer than its size')
