/** What a request's head says, beside its headers. */
export interface RequestHead {
  readonly method: string
  readonly target: string
  /** After its answer the connection ends. */
  readonly closes: boolean
  /** The client asked for the connection to be kept, and wants to be told. */
  readonly asksToKeep: boolean
  /** Of the body, which has a known length. */
  readonly contentLength: number
  /** Where its headers begin, and where its body does, from the beginning of the request. */
  readonly fieldsStart: number
  readonly bodyStart: number
}

/** A longer head is read each time. Each connection holds so much at most. */
const maxBytes = 1024

/**
 * The last head of a connection, as its octets. Clients send the same one again and again: to compare it costs
 * a tenth of reading it. The same octets are the same request line and headers, so nothing else is to be
 * checked; but heads that the rest of the request depends on, as those of chunks do, are none to keep.
 */
export class HeadMemory {
  #octets: Buffer | undefined
  #head: RequestHead | undefined

  /** The head that begins at `start`, when it is the one that was kept. */
  find(bytes: Buffer, start: number, end: number): RequestHead | undefined {
    const head = this.#head
    const octets = this.#octets
    if (head === undefined || octets === undefined) return undefined
    const headEnd = start + head.bodyStart
    if (headEnd > end || octets.compare(bytes, start, headEnd, 0, head.bodyStart) !== 0) return undefined
    return head
  }

  /** The octets are copied: whoever owns them may write to them again. */
  keep(head: RequestHead, bytes: Buffer, start: number): void {
    if (head.bodyStart > maxBytes) return
    if (this.#octets === undefined || this.#octets.length < head.bodyStart) {
      this.#octets = Buffer.allocUnsafeSlow(head.bodyStart)
    }
    bytes.copy(this.#octets, 0, start, start + head.bodyStart)
    this.#head = head
  }
}
