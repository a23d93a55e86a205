import { ConnectionError, frameFlags } from './frames.ts'
import { dependsOnItself, priorityBytes, withoutPadding } from './payload-checks.ts'

/**
 * The smallest limit of an encoded block. A block beyond the limit ends its connection: no well-behaved peer
 * sends it.
 */
const minBlockBytes = 64 * 1024
/**
 * CONTINUATION frames with fewer bytes count as control frames, since they carry little data for their cost.
 */
const smallContinuationBytes = 64

export interface HeaderBlockSink {
  /**
   * The block is in the buffer from `start` to before `end`.
   *
   * @param ownParent whether the stream depends on itself: an error, but only after the block was decoded
   */
  onHeaderBlock(
    streamId: number,
    endStream: boolean,
    ownParent: boolean,
    buffer: Buffer,
    start: number,
    end: number,
  ): void
  onSmallContinuation(): void
}

/** A header block whose last CONTINUATION frame has not arrived. */
interface OpenBlock {
  readonly streamId: number
  readonly endStream: boolean
  readonly ownParent: boolean
  readonly parts: Buffer[]
  bytes: number
}

/** Joins HEADERS and CONTINUATION frames to header blocks (RFC 9113, 6.2 and 6.10). */
export class HeaderFrames {
  readonly #sink: HeaderBlockSink
  readonly #maxBytes: number
  #open: OpenBlock | undefined

  /** @param maxListBytes the limit of a decoded list; an encoded block may have twice as many bytes */
  constructor(maxListBytes: number, sink: HeaderBlockSink) {
    this.#sink = sink
    this.#maxBytes = Math.max(minBlockBytes, 2 * maxListBytes)
  }

  /** The bytes of an incomplete block; 0 if there is none. */
  get openBytes(): number {
    return this.#open?.bytes ?? 0
  }

  /** The stream of an incomplete block, which allows no frames but its CONTINUATION. */
  get openStreamId(): number | undefined {
    return this.#open?.streamId
  }

  /**
   * @throws ConnectionError PROTOCOL_ERROR, FRAME_SIZE_ERROR, ENHANCE_YOUR_CALM, and exceptions of the sink
   */
  onHeaders(flags: number, id: number, buffer: Buffer, from: number, to: number): void {
    if (id % 2 === 0) throw new ConnectionError('PROTOCOL_ERROR', `HEADERS of stream ${id}`)
    let { start, end } = withoutPadding(flags, buffer, from, to)
    let ownParent = false
    if (flags & frameFlags.PRIORITY) {
      if (end - start < priorityBytes) throw new ConnectionError('FRAME_SIZE_ERROR', 'HEADERS are too short')
      ownParent = dependsOnItself(id, buffer, start)
      start += priorityBytes
    }
    const endStream = (flags & frameFlags.END_STREAM) !== 0
    if (flags & frameFlags.END_HEADERS) {
      this.#sink.onHeaderBlock(id, endStream, ownParent, buffer, start, end)
      return
    }
    this.#open = { streamId: id, endStream, ownParent, parts: [], bytes: 0 }
    this.#extend(this.#open, buffer.subarray(start, end))
  }

  /**
   * Takes a CONTINUATION frame; the caller has checked the number of its stream.
   *
   * @throws ConnectionError PROTOCOL_ERROR, ENHANCE_YOUR_CALM, and exceptions of the sink
   */
  onContinuation(flags: number, part: Buffer): void {
    const open = this.#open
    if (!open) throw new ConnectionError('PROTOCOL_ERROR', 'CONTINUATION without HEADERS')
    if (part.length < smallContinuationBytes) this.#sink.onSmallContinuation()
    this.#extend(open, part)
    if (!(flags & frameFlags.END_HEADERS)) return
    this.#open = undefined
    const { streamId, endStream, ownParent, parts, bytes } = open
    this.#sink.onHeaderBlock(streamId, endStream, ownParent, Buffer.concat(parts), 0, bytes)
  }

  #extend(open: OpenBlock, part: Buffer): void {
    open.bytes += part.length
    if (open.bytes > this.#maxBytes) {
      throw new ConnectionError('ENHANCE_YOUR_CALM', `a header block exceeds ${this.#maxBytes} bytes`)
    }
    if (part.length > 0) open.parts.push(part)
  }
}
