import { ExpectedError } from '@tollway/chassis/expected-error.ts'

/** The types of frames (RFC 9113, section 6). */
export const frameTypes = {
  DATA: 0,
  HEADERS: 1,
  PRIORITY: 2,
  RST_STREAM: 3,
  SETTINGS: 4,
  PUSH_PROMISE: 5,
  PING: 6,
  GOAWAY: 7,
  WINDOW_UPDATE: 8,
  CONTINUATION: 9,
} as const

export const frameFlags = {
  END_STREAM: 0x1,
  ACK: 0x1,
  END_HEADERS: 0x4,
  PADDED: 0x8,
  PRIORITY: 0x20,
} as const

/** The error codes of RFC 9113 (section 7) that this code uses. */
export const errorCodes = {
  NO_ERROR: 0x0,
  PROTOCOL_ERROR: 0x1,
  INTERNAL_ERROR: 0x2,
  FLOW_CONTROL_ERROR: 0x3,
  STREAM_CLOSED: 0x5,
  FRAME_SIZE_ERROR: 0x6,
  REFUSED_STREAM: 0x7,
  CANCEL: 0x8,
  COMPRESSION_ERROR: 0x9,
  ENHANCE_YOUR_CALM: 0xb,
} as const

type ErrorName = keyof typeof errorCodes

/** The identifiers of settings (RFC 9113, 6.5.2). */
export const settingIds = {
  HEADER_TABLE_SIZE: 1,
  ENABLE_PUSH: 2,
  MAX_CONCURRENT_STREAMS: 3,
  INITIAL_WINDOW_SIZE: 4,
  MAX_FRAME_SIZE: 5,
  MAX_HEADER_LIST_SIZE: 6,
} as const

export const preface = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n', 'latin1')

export const frameHeadBytes = 9
/** Every endpoint must accept frames of this size; the server announces no larger ones (RFC 9113, 4.2). */
export const defaultMaxFrameBytes = 16_384
export const defaultWindowBytes = 65_535
export const maxWindowBytes = 2 ** 31 - 1
export const maxStreamId = 2 ** 31 - 1

/** Ends the connection with GOAWAY (RFC 9113, 5.4.1). */
export class ConnectionError extends ExpectedError {
  readonly code: number

  constructor(code: ErrorName, message: string) {
    super(message)
    this.name = 'ConnectionError'
    this.code = errorCodes[code]
  }
}

/** Ends one stream with RST_STREAM (RFC 9113, 5.4.2). */
export class StreamError extends ExpectedError {
  readonly streamId: number
  readonly code: number

  constructor(streamId: number, code: ErrorName, message: string) {
    super(message)
    this.name = 'StreamError'
    this.streamId = streamId
    this.code = errorCodes[code]
  }
}

/** Writes the nine bytes before a payload (RFC 9113, 4.1). Returns the offset behind them. */
export function writeFrameHead(
  target: Buffer,
  offset: number,
  payloadBytes: number,
  type: number,
  flags: number,
  streamId: number,
): number {
  writeWord(target, offset, (payloadBytes << 8) | type)
  target[offset + 4] = flags
  writeWord(target, offset + 5, streamId)
  return offset + frameHeadBytes
}

/** Writes a big-endian word of 32 bits, without the slow checks of Buffer's methods. */
export function writeWord(target: Uint8Array, offset: number, word: number): void {
  target[offset] = word >>> 24
  target[offset + 1] = word >>> 16
  target[offset + 2] = word >>> 8
  target[offset + 3] = word
}

/** Returns a frame in memory of its own. Only for infrequent frames, since the allocation costs time. */
export function frameBytes(type: number, flags: number, streamId: number, payload: Uint8Array): Buffer {
  const frame = Buffer.allocUnsafe(frameHeadBytes + payload.length)
  frame.set(payload, writeFrameHead(frame, 0, payload.length, type, flags, streamId))
  return frame
}

/** Returns big-endian words: the payload of RST_STREAM and WINDOW_UPDATE, and the beginning of GOAWAY. */
export function wordBytes(...words: readonly number[]): Buffer {
  const bytes = Buffer.allocUnsafe(words.length * 4)
  for (const [index, word] of words.entries()) writeWord(bytes, index * 4, word)
  return bytes
}

/** Returns HEADERS with at most `maxBytes`, and CONTINUATION with the rest (RFC 9113, 6.10). */
export function headersFrames(
  streamId: number,
  block: Uint8Array,
  endStream: boolean,
  maxBytes: number,
): Buffer[] {
  const frames: Buffer[] = []
  for (let offset = 0; offset === 0 || offset < block.length; offset += maxBytes) {
    const first = offset === 0
    const end = first && endStream ? frameFlags.END_STREAM : 0
    const last = offset + maxBytes >= block.length ? frameFlags.END_HEADERS : 0
    const type = first ? frameTypes.HEADERS : frameTypes.CONTINUATION
    frames.push(frameBytes(type, end | last, streamId, block.subarray(offset, offset + maxBytes)))
  }
  return frames
}
