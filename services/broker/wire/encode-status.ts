import { Buffer } from 'node:buffer'
import { type Status, statusCodes } from './status.ts'
import { delimited, varint } from './wire-reader.ts'

/** Encodes a bare Status, the answer to a push. SUCCESS without a message has no bytes, as in proto3. */
export function encodeStatus({ code, message }: Status): Uint8Array {
  const number = statusCodes.indexOf(code)
  const text = Buffer.from(message, 'utf8')
  return Buffer.concat([
    number === 0 ? noBytes : Buffer.from([(1 << 3) | varint, number]),
    text.length === 0 ? noBytes : withLength(2, text),
  ])
}

/** Encodes an AnimationDataStream with a status, for consumers. */
export function encodeStatusMessage(status: Status): Uint8Array {
  return withLength(3, encodeStatus(status))
}

const noBytes = Buffer.alloc(0)

/** A length-delimited field with a number below 16. */
function withLength(field: number, bytes: Uint8Array): Buffer {
  const head = [(field << 3) | delimited]
  let rest = bytes.length
  while (rest > 0x7f) {
    head.push((rest & 0x7f) | 0x80)
    rest >>>= 7
  }
  return Buffer.concat([Buffer.from([...head, rest]), bytes])
}
