import { frameHeaderBytes } from './frames.ts'

/** Splits received bytes into frames; the payload is valid until the next bytes arrive. */
export function createFrameReader(
  take: (type: number, flagBits: number, streamId: number, payload: Buffer) => void,
): (chunk: Buffer) => void {
  let rest: Buffer = Buffer.alloc(0)
  return chunk => {
    const bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk])
    let offset = 0
    while (bytes.length - offset >= frameHeaderBytes) {
      const end = offset + frameHeaderBytes + bytes.readUIntBE(offset, 3)
      if (end > bytes.length) break
      const streamId = bytes.readUInt32BE(offset + 5)
      const payload = bytes.subarray(offset + frameHeaderBytes, end)
      take(bytes[offset + 3] ?? 0, bytes[offset + 4] ?? 0, streamId, payload)
      offset = end
    }
    rest = offset === bytes.length ? Buffer.alloc(0) : Buffer.from(bytes.subarray(offset))
  }
}
