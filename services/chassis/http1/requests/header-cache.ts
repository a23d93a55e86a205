/** The parsed head of a request, without its headers. */
export interface RequestHead {
  readonly method: string
  readonly target: string
  /** The connection ends after the answer. */
  readonly closes: boolean
  /** The client asked to keep the connection, and expects the answer to confirm it. */
  readonly asksToKeep: boolean
  /** The length of the body, if known. */
  readonly contentLength: number
  /** The offsets of the headers and the body from the beginning of the request. */
  readonly fieldsStart: number
  readonly bodyStart: number
}

/** A longer head is parsed each time. Each connection stores at most this many bytes. */
const maxBytes = 1024

/**
 * A cache of the last head of a connection, by its octets. Clients send the same head repeatedly, and
 * comparing it costs a tenth of parsing it. Equal octets are the same request line and headers, so they need
 * no further checks. Heads of chunked requests are not cached, since their parsing depends on more state.
 */
export class HeaderCache {
  #octets: Buffer | undefined
  #head: RequestHead | undefined

  /** Returns the head that begins at `start` if it is the cached one. */
  find(bytes: Buffer, start: number, end: number): RequestHead | undefined {
    const head = this.#head
    const octets = this.#octets
    if (head === undefined || octets === undefined) return undefined
    const headEnd = start + head.bodyStart
    if (headEnd > end || octets.compare(bytes, start, headEnd, 0, head.bodyStart) !== 0) return undefined
    return head
  }

  /** The octets are copied, since the owner of the buffer may overwrite it. */
  keep(head: RequestHead, bytes: Buffer, start: number): void {
    if (head.bodyStart > maxBytes) return
    if (this.#octets === undefined || this.#octets.length < head.bodyStart) {
      this.#octets = Buffer.allocUnsafeSlow(head.bodyStart)
    }
    bytes.copy(this.#octets, 0, start, start + head.bodyStart)
    this.#head = head
  }
}
