import { ConnectionError, frameFlags } from './frames.ts'
import { dependsOnItself, priorityBytes, withoutPadding } from './payload-checks.ts'

/** A longer header block, still encoded, ends its connection: nobody honest sends one. */
const minBlockBytes = 64 * 1024
/** CONTINUATION frames below this count as control frames: they carry next to nothing. */
const smallContinuationBytes = 64

/** Takes a whole header block, which lies between `start` and `end` of the buffer. */
export interface HeaderBlockSink {
  /** @param ownParent the stream is said to depend on itself, which is an error once the block is read */
  onHeaderBlock(
    streamId: number,
    endStream: boolean,
    ownParent: boolean,
    buffer: Buffer,
    start: number,
    end: number,
  ): void
  /** A frame that brought next to nothing. */
  onSmallContinuation(): void
}

/** A block whose CONTINUATION frames have not all come yet. */
interface OpenBlock {
  readonly streamId: number
  readonly endStream: boolean
  readonly ownParent: boolean
  readonly parts: Buffer[]
  bytes: number
}

/** Makes header blocks of the frames HEADERS and CONTINUATION (RFC 9113, 6.2 and 6.10). */
export class HeaderFrames {
  readonly #sink: HeaderBlockSink
  readonly #maxBytes: number
  #open: OpenBlock | undefined

  /** @param maxListBytes of a header list that is still taken, decoded */
  constructor(maxListBytes: number, sink: HeaderBlockSink) {
    this.#sink = sink
    this.#maxBytes = Math.max(minBlockBytes, 2 * maxListBytes)
  }

  /** How much has come of a block that is not whole. */
  get openBytes(): number {
    return this.#open?.bytes ?? 0
  }

  /** The stream of which the next frame must be CONTINUATION; undefined when any frame may come. */
  get openStreamId(): number | undefined {
    return this.#open?.streamId
  }

  /** @throws ConnectionError PROTOCOL_ERROR, FRAME_SIZE_ERROR, and what the sink throws. */
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

  /** @throws ConnectionError PROTOCOL_ERROR, ENHANCE_YOUR_CALM, and what the sink throws. */
  onContinuation(flags: number, part: Buffer): void {
    const open = this.#open
    if (!open) throw new ConnectionError('PROTOCOL_ERROR', 'CONTINUATION of nothing')
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
