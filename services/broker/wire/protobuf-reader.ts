import { Buffer, isUtf8 } from 'node:buffer'
import { ExpectedError } from '@tollway/chassis/expected-error.ts'

/** The wire types, the lowest three bits of a tag; the higher bits are the number of the field. */
export const varint = 0
export const fixed64 = 1
export const delimited = 2
export const fixed32 = 5

const maxVarintBytes = 10
/** The longest varint of a tag or length, which have 32 bits. */
const maxShortVarintBytes = 5

/**
 * Reads an encoded protobuf message in place. It is strict, so that every decoder accepts what it accepts:
 * fields end within their message, tags and lengths have at most 32 bits, strings are UTF-8, and there are no
 * groups, which proto3 does not have. So messages nest only as deep as in the schema.
 *
 * Every method throws MalformedMessage for invalid bytes.
 */
export class ProtobufReader {
  at = 0
  /** The position behind the current message. */
  end: number
  readonly #bytes: Uint8Array
  #view: DataView | undefined

  constructor(bytes: Uint8Array) {
    this.#bytes = bytes
    this.end = bytes.length
  }

  /** The number of the field times 8, plus the wire type. */
  tag(): number {
    const start = this.at
    const tag = this.#shortVarint('a tag')
    if (tag < 8) throw new MalformedMessage(start, 'a field has the number 0')
    return tag
  }

  /** Enters the message that follows. Returns the end of the outer message, for `leave`. */
  enter(): number {
    const length = this.length()
    const outer = this.end
    this.end = this.at + length
    return outer
  }

  leave(outer: number): void {
    this.end = outer
  }

  /** Reads the length of the value that follows, and ensures that all its bytes are there. */
  length(): number {
    const start = this.at
    const length = this.#shortVarint('a length')
    if (length > this.end - this.at) {
      throw new MalformedMessage(
        start,
        `a length of ${length} is found, ${this.end - this.at} bytes are left`,
      )
    }
    return length
  }

  /** Reads the lower 32 bits of a varint, as decoders do for a uint32 that is encoded with more. */
  uint32(): number {
    const start = this.at
    let value = 0
    for (let bits = 0; bits < 7 * maxVarintBytes; bits += 7) {
      const byte = this.#byte(start)
      if (bits < 32) value |= (byte & 0x7f) << bits
      if (byte < 0x80) return value >>> 0
    }
    throw new MalformedMessage(start, `a varint has more than ${maxVarintBytes} bytes`)
  }

  double(): number {
    const start = this.at
    this.#pass(8)
    this.#view ??= new DataView(this.#bytes.buffer, this.#bytes.byteOffset, this.#bytes.byteLength)
    return this.#view.getFloat64(start, true)
  }

  string(): string {
    const bytes = this.#utf8()
    return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString('utf8')
  }

  passString(): void {
    this.#utf8()
  }

  /** Skips bytes, and returns their number. */
  passBytes(): number {
    const length = this.length()
    this.at += length
    return length
  }

  /** Skips packed floats, and returns their number. */
  passPackedFloats(): number {
    const start = this.at
    const length = this.passBytes()
    if (length % 4 !== 0) throw new MalformedMessage(start, `floats of 4 bytes have ${length} bytes together`)
    return length / 4
  }

  /** Skips a vector, a message whose fields are floats. */
  passVector(): void {
    const outer = this.enter()
    // A fast path for the usual encoding, a tag of one byte and four bytes: a message has hundreds of joints.
    while (this.end - this.at >= 5 && isShortFloatTag(this.#bytes[this.at])) this.at += 5
    while (this.at < this.end) this.skip(this.tag())
    this.leave(outer)
  }

  /** Skips a field that the schema does not have, or has with another wire type. */
  skip(tag: number): void {
    switch (tag & 7) {
      case varint:
        this.uint32()
        break
      case fixed64:
        this.#pass(8)
        break
      case delimited:
        this.passBytes()
        break
      case fixed32:
        this.#pass(4)
        break
      default:
        throw new MalformedMessage(this.at, `field ${tag >>> 3} has the wire type ${tag & 7}`)
    }
  }

  #pass(size: number): void {
    if (size > this.end - this.at) {
      throw new MalformedMessage(this.at, `a number of ${size} bytes is cut off`)
    }
    this.at += size
  }

  #byte(start: number): number {
    const byte = this.at < this.end ? this.#bytes[this.at] : undefined
    if (byte === undefined) throw new MalformedMessage(start, 'a varint is cut off')
    this.at += 1
    return byte
  }

  #shortVarint(what: string): number {
    const first = this.at < this.end ? this.#bytes[this.at] : undefined
    if (first !== undefined && first < 0x80) {
      this.at += 1
      return first
    }
    const start = this.at
    const value = this.uint32()
    const size = this.at - start
    // The fifth byte has the four highest bits.
    if (
      size > maxShortVarintBytes ||
      (size === maxShortVarintBytes && (this.#bytes[this.at - 1] ?? 0) > 0x0f)
    ) {
      throw new MalformedMessage(start, `${what} has more than 32 bits`)
    }
    return value
  }

  #utf8(): Uint8Array {
    const length = this.length()
    const bytes = this.#bytes.subarray(this.at, this.at + length)
    if (!isUtf8(bytes)) throw new MalformedMessage(this.at, 'a string is not UTF-8')
    this.at += length
    return bytes
  }
}

/** Returns whether the tag is of a float with a field number from 1 to 15. */
function isShortFloatTag(byte: number | undefined): boolean {
  return byte !== undefined && byte > 7 && (byte & 0x87) === fixed32
}

/** Thrown if the bytes are no message of the schema, and must not be passed on. */
export class MalformedMessage extends ExpectedError {
  /** The position of the first byte that cannot be read, from the start of the message. */
  readonly offset: number

  constructor(offset: number, found: string) {
    super(`malformed message: at byte ${offset} ${found}`)
    this.name = 'MalformedMessage'
    this.offset = offset
  }
}
