import { ConnectionError, defaultMaxFrameBytes, frameHeadBytes, preface } from './frames.ts'

/**
 * The payload is in the buffer from `start` to before `end`. The buffer is never overwritten, so views may be
 * kept. An exception stops the reading.
 */
type FrameSink = (
  type: number,
  flags: number,
  streamId: number,
  buffer: Buffer,
  start: number,
  end: number,
) => void

/**
 * Reads frames. A frame within one chunk is passed on as a view of the chunk; a frame that spans chunks is
 * copied.
 */
export class FrameReader {
  readonly #sink: FrameSink
  #prefaceRead = 0
  readonly #head = Buffer.alloc(frameHeadBytes)
  #headRead = 0
  #payload: Buffer | undefined
  #payloadRead = 0

  /** @param preface whether the bytes begin with the HTTP/2 preface, as the bytes of a client do */
  constructor(sink: FrameSink, { preface: begins = true } = {}) {
    this.#sink = sink
    if (!begins) this.#prefaceRead = preface.length
  }

  get prefaceDone(): boolean {
    return this.#prefaceRead === preface.length
  }

  /**
   * @throws ConnectionError PROTOCOL_ERROR without the preface (RFC 9113, 3.4), FRAME_SIZE_ERROR for a frame
   *   larger than `defaultMaxFrameBytes` (4.2), and exceptions of the sink
   */
  read(chunk: Buffer): void {
    let offset = this.prefaceDone ? 0 : this.#readPreface(chunk)
    if (this.#headRead > 0) offset = this.#readSpread(chunk, offset)
    if (this.#headRead > 0) return
    while (chunk.length - offset >= frameHeadBytes) {
      const payloadBytes = payloadLength(chunk, offset)
      const start = offset + frameHeadBytes
      if (chunk.length - start < payloadBytes) break
      offset = start + payloadBytes
      this.#deliver(chunk, start - frameHeadBytes, chunk, start, offset)
    }
    if (offset < chunk.length) this.#readSpread(chunk, offset)
  }

  #readPreface(chunk: Buffer): number {
    const bytes = Math.min(chunk.length, preface.length - this.#prefaceRead)
    if (chunk.compare(preface, this.#prefaceRead, this.#prefaceRead + bytes, 0, bytes) !== 0) {
      throw new ConnectionError('PROTOCOL_ERROR', 'the connection does not begin with the HTTP/2 preface')
    }
    this.#prefaceRead += bytes
    return bytes
  }

  /** Adds bytes to an incomplete frame, or begins one. Returns the offset behind the used bytes. */
  #readSpread(chunk: Buffer, from: number): number {
    let offset = from
    if (this.#payload === undefined) {
      const taken = chunk.copy(this.#head, this.#headRead, offset, offset + frameHeadBytes - this.#headRead)
      this.#headRead += taken
      offset += taken
      if (this.#headRead < frameHeadBytes) return offset
      this.#payload = Buffer.allocUnsafeSlow(payloadLength(this.#head, 0))
      this.#payloadRead = 0
    }
    const payload = this.#payload
    const taken = chunk.copy(payload, this.#payloadRead, offset)
    this.#payloadRead += taken
    if (this.#payloadRead === payload.length) {
      this.#payload = undefined
      this.#headRead = 0
      this.#deliver(this.#head, 0, payload, 0, payload.length)
    }
    return offset + taken
  }

  #deliver(head: Buffer, at: number, buffer: Buffer, start: number, end: number): void {
    // The highest bit is reserved and ignored (RFC 9113, 4.1).
    const streamId = head.readUInt32BE(at + 5) & 0x7fff_ffff
    this.#sink(head.readUInt8(at + 3), head.readUInt8(at + 4), streamId, buffer, start, end)
  }
}

function payloadLength(head: Buffer, at: number): number {
  const bytes = head.readUInt32BE(at) >>> 8
  if (bytes <= defaultMaxFrameBytes) return bytes
  throw new ConnectionError(
    'FRAME_SIZE_ERROR',
    `a frame has ${bytes} bytes, at most ${defaultMaxFrameBytes} are allowed`,
  )
}
