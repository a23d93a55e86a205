/** Receives a message between `start` and `end`; the buffer is overwritten afterwards. */
export type TakeMessage = (buffer: Buffer, start: number, end: number) => void

const prefixBytes = 5

/**
 * Splits the body of one stream into gRPC messages, for any split into frames. A message within one piece is
 * not copied, since a load must read more messages than the server can write.
 */
export function createMessageReader(take: TakeMessage): (buffer: Buffer, start: number, end: number) => void {
  const prefix = Buffer.alloc(prefixBytes)
  let prefixRead = 0
  let spread: Buffer | undefined
  let spreadRead = 0

  /** Continues an incomplete message; returns the offset after it. */
  function readSpread(message: Buffer, buffer: Buffer, start: number, end: number): number {
    const taken = buffer.copy(message, spreadRead, start, end)
    spreadRead += taken
    if (spreadRead === message.length) {
      spread = undefined
      take(message, 0, message.length)
    }
    return start + taken
  }

  /** Reads the prefix of a message, which may be in several pieces. */
  function readPrefix(buffer: Buffer, start: number, end: number): number {
    const taken = buffer.copy(prefix, prefixRead, start, Math.min(end, start + prefixBytes - prefixRead))
    prefixRead += taken
    if (prefixRead < prefixBytes) return start + taken
    prefixRead = 0
    const messageStart = start + taken
    const messageEnd = messageStart + prefix.readUInt32BE(1)
    if (messageEnd <= end) {
      take(buffer, messageStart, messageEnd)
      return messageEnd
    }
    spread = Buffer.allocUnsafe(messageEnd - messageStart)
    spreadRead = 0
    return messageStart
  }

  return (buffer, start, end) => {
    let offset = start
    while (offset < end) {
      if (spread !== undefined) {
        offset = readSpread(spread, buffer, offset, end)
      } else if (prefixRead === 0 && end - offset >= prefixBytes) {
        const messageStart = offset + prefixBytes
        const messageEnd = messageStart + buffer.readUInt32BE(offset + 1)
        if (messageEnd <= end) take(buffer, messageStart, messageEnd)
        offset = messageEnd <= end ? messageEnd : readPrefix(buffer, offset, end)
      } else offset = readPrefix(buffer, offset, end)
    }
  }
}
