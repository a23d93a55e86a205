import { Buffer } from 'node:buffer'
import type { StatusMessage } from './message.ts'
import { delimited, type ProtobufReader, varint } from './protobuf-reader.ts'
import type { Mutable } from './read-header.ts'

/** The state of a request, as the animation data specification names it. */
export interface Status {
  readonly code: AnimationStatusCode
  readonly message: string
}

/** The codes in the order of their numbers on the wire. */
export const animationStatusCodes = ['SUCCESS', 'INFO', 'WARNING', 'ERROR'] as const
type AnimationStatusCode = (typeof animationStatusCodes)[number]

export interface StatusBuilder extends StatusMessage {
  readonly status: Mutable<Status>
}

export function emptyStatus(): StatusBuilder {
  return { part: 'status', status: { code: 'SUCCESS', message: '' } }
}

export function readStatus(reader: ProtobufReader, { status }: StatusBuilder): void {
  const outer = reader.enter()
  while (reader.at < reader.end) {
    const tag = reader.tag()
    switch (tag) {
      case (1 << 3) | varint:
        status.code = animationStatusCodes[reader.uint32()] ?? 'ERROR'
        break
      case (2 << 3) | delimited:
        status.message = reader.string()
        break
      default:
        reader.skip(tag)
    }
  }
  reader.leave(outer)
}

/** Encodes the answer to a push. SUCCESS without a message has no bytes, as in proto3. */
export function encodeStatus({ code, message }: Status): Uint8Array {
  const number = animationStatusCodes.indexOf(code)
  const text = Buffer.from(message, 'utf8')
  return Buffer.concat([
    number === 0 ? noBytes : Buffer.from([(1 << 3) | varint, number]),
    text.length === 0 ? noBytes : withLength(2, text),
  ])
}

/** Encodes an AnimationDataStream with the status, for consumers. */
export function encodeStatusMessage(status: Status): Uint8Array {
  return withLength(3, encodeStatus(status))
}

const noBytes = Buffer.alloc(0)

/** Encodes a length-delimited field with a number below 16. */
function withLength(field: number, bytes: Uint8Array): Buffer {
  const head = [(field << 3) | delimited]
  let rest = bytes.length
  while (rest > 0x7f) {
    head.push((rest & 0x7f) | 0x80)
    rest >>>= 7
  }
  return Buffer.concat([Buffer.from([...head, rest]), bytes])
}
