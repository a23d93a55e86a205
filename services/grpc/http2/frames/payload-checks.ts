import { ConnectionError, frameFlags, maxStreamId, maxWindowBytes, StreamError } from './frames.ts'

/** The size of a priority in HEADERS and PRIORITY frames, a deprecated feature. */
export const priorityBytes = 5

/**
 * Returns the bounds of the payload without its padding (RFC 9113, 6.1 and 6.2).
 *
 * @throws ConnectionError PROTOCOL_ERROR when the padding is longer than the frame
 */
export function withoutPadding(flags: number, buffer: Buffer, start: number, end: number) {
  if (!(flags & frameFlags.PADDED)) return { start, end }
  const padding = start < end ? buffer.readUInt8(start) : 0
  if (start + 1 + padding > end) throw new ConnectionError('PROTOCOL_ERROR', 'the padding exceeds its frame')
  return { start: start + 1, end: end - padding }
}

/** Returns whether the stream depends on itself, which RFC 7540 (5.3.1) forbids. */
export function dependsOnItself(streamId: number, buffer: Buffer, start: number): boolean {
  return (buffer.readUInt32BE(start) & maxStreamId) === streamId
}

/** A valid frame has no effect: RFC 9113 (5.3) deprecates priorities. */
export function checkPriority(id: number, buffer: Buffer, start: number, end: number): void {
  if (id === 0) throw new ConnectionError('PROTOCOL_ERROR', 'PRIORITY of no stream')
  if (end - start !== priorityBytes) throw new StreamError(id, 'FRAME_SIZE_ERROR', 'PRIORITY of a wrong size')
  if (dependsOnItself(id, buffer, start)) {
    throw new StreamError(id, 'PROTOCOL_ERROR', 'a stream depends on itself')
  }
}

/** A valid frame has no effect: streams that the peer has begun continue. */
export function checkGoAway(id: number, bytes: number): void {
  if (id !== 0) throw new ConnectionError('PROTOCOL_ERROR', 'GOAWAY of a stream')
  if (bytes < 8) throw new ConnectionError('FRAME_SIZE_ERROR', `GOAWAY of ${bytes} bytes`)
}

/**
 * Returns the increment, which may be 0: the caller rejects that as an error of the stream or of the
 * connection (RFC 9113, 6.9).
 */
export function windowIncrement(buffer: Buffer, start: number, end: number): number {
  if (end - start !== 4)
    throw new ConnectionError('FRAME_SIZE_ERROR', `WINDOW_UPDATE of ${end - start} bytes`)
  return buffer.readUInt32BE(start) & maxWindowBytes
}
