import { Buffer } from 'node:buffer'
import { type Status, statusCodes } from './status.ts'
import { delimited, varint } from './wire-reader.ts'

/** A bare Status: the answer to a push. Empty bytes for SUCCESS without a message, as proto3 says. */
export function encodeStatus({ code, message }: Status): Uint8Array {
  const number = statusCodes.indexOf(code)
  const text = Buffer.from(message, 'utf8')
  return Buffer.concat([
    number === 0 ? noBytes : Buffer.from([(1 << 3) | varint, number]),
    text.length === 0 ? noBytes : withLength(2, text),
  ])
}

/** An AnimationDataStream whose part is the status: what consumers get. */
export function encodeStatusMessage(status: Status): Uint8Array {
  return withLength(3, encodeStatus(status))
}

const noBytes = Buffer.alloc(0)

/** A field below 16 of length-delimited bytes. */
function withLength(field: number, bytes: Uint8Array): Buffer {
  const head = [(field << 3) | delimited]
  let rest = bytes.length
  while (rest > 0x7f) {
    head.push((rest & 0x7f) | 0x80)
    rest >>>= 7
  }
  return Buffer.concat([Buffer.from([...head, rest]), bytes])
}
