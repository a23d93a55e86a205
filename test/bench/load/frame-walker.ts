import { frameHeaderBytes, frameTypes } from './frames.ts'

export interface FrameListener {
  /** A part of the body of a stream; the buffer is overwritten afterwards. */
  onBody(streamId: number, buffer: Buffer, start: number, end: number): void
  /** A complete frame of DATA with this many bytes was read. */
  onData(streamId: number, flagBits: number, bytes: number): void
  /** Another frame. The payload is valid until the next bytes arrive. */
  onFrame(type: number, flagBits: number, streamId: number, payload: Buffer): void
}

/**
 * Splits received bytes into frames. The payload of DATA is passed on as it arrives, in parts and without a
 * copy; that of other frames, which are short and rare, as a whole.
 */
export function createFrameWalker(listener: FrameListener): (chunk: Buffer) => void {
  const header = Buffer.alloc(frameHeaderBytes)
  let headerRead = 0
  let left = 0
  let payload = Buffer.alloc(0)

  function begin(): void {
    left = header.readUIntBE(0, 3)
    if (header[3] !== frameTypes.data) payload = Buffer.allocUnsafe(left)
    if (left === 0) finish()
  }

  function finish(): void {
    headerRead = 0
    const flagBits = header[4] ?? 0
    const streamId = header.readUInt32BE(5)
    if (header[3] === frameTypes.data) listener.onData(streamId, flagBits, header.readUIntBE(0, 3))
    else listener.onFrame(header[3] ?? 0, flagBits, streamId, payload)
  }

  return chunk => {
    let offset = 0
    while (offset < chunk.length) {
      if (headerRead < frameHeaderBytes) {
        const taken = chunk.copy(header, headerRead, offset, offset + frameHeaderBytes - headerRead)
        headerRead += taken
        offset += taken
        if (headerRead === frameHeaderBytes) begin()
        continue
      }
      const end = Math.min(chunk.length, offset + left)
      if (header[3] === frameTypes.data) listener.onBody(header.readUInt32BE(5), chunk, offset, end)
      else chunk.copy(payload, payload.length - left, offset, end)
      left -= end - offset
      offset = end
      if (left === 0) finish()
    }
  }
}
