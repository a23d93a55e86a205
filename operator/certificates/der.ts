/**
 * The distinguished encoding of ASN.1 (X.690), as far as certificates need it. All functions return encoded
 * values.
 */

const tags = {
  BOOLEAN: 0x01,
  INTEGER: 0x02,
  BIT_STRING: 0x03,
  OCTET_STRING: 0x04,
  OBJECT_IDENTIFIER: 0x06,
  UTF8_STRING: 0x0c,
  UTC_TIME: 0x17,
  GENERALIZED_TIME: 0x18,
  SEQUENCE: 0x30,
  SET: 0x31,
}

/** Encodes a tag, the length in the fewest bytes, and the content (8.1.3 and 10.1). */
function encode(tag: number, ...parts: readonly Uint8Array[]): Buffer {
  const content = Buffer.concat(parts)
  return Buffer.concat([Buffer.of(tag), encodeLength(content.length), content])
}

function encodeLength(length: number): Buffer {
  if (length < 0x80) return Buffer.of(length)
  const digits = minimalBytes(length)
  return Buffer.concat([Buffer.of(0x80 | digits.length), digits])
}

function minimalBytes(value: number): Buffer {
  const hex = value.toString(16)
  return Buffer.from(hex.length % 2 === 0 ? hex : `0${hex}`, 'hex')
}

export const sequence = (...parts: readonly Uint8Array[]) => encode(tags.SEQUENCE, ...parts)
export const set = (...parts: readonly Uint8Array[]) => encode(tags.SET, ...parts)
export const octetString = (content: Uint8Array) => encode(tags.OCTET_STRING, content)
export const utf8String = (text: string) => encode(tags.UTF8_STRING, Buffer.from(text))
export const isTrue = encode(tags.BOOLEAN, Buffer.of(0xff))

/** `[number] EXPLICIT`: a wrapper around content with a tag. */
export const explicit = (number: number, content: Uint8Array) => encode(0xa0 | number, content)

/** `[number] IMPLICIT` of a type that is not constructed: the number takes the place of its tag. */
export const implicit = (number: number, content: Uint8Array) => encode(0x80 | number, content)

/** Encodes a number that is not negative, from big-endian bytes. A leading zero keeps it positive (8.3). */
export function unsignedInteger(bytes: Uint8Array): Buffer {
  const start = bytes.findIndex(byte => byte !== 0)
  const digits = start === -1 ? Buffer.of(0) : bytes.subarray(start)
  const sign = (digits[0] ?? 0) >= 0x80 ? Buffer.of(0) : Buffer.of()
  return encode(tags.INTEGER, sign, digits)
}

/** Encodes bits; the last `unusedBits` of the last byte do not count. */
export const bitString = (bytes: Uint8Array, unusedBits = 0) =>
  encode(tags.BIT_STRING, Buffer.of(unusedBits), bytes)

/** `2.5.29.19`. The first two numbers share a byte, the others have seven bits in each (8.19). */
export function objectIdentifier(dotted: string): Buffer {
  const [first = 0, second = 0, ...others] = dotted.split('.').map(Number)
  const bytes = [first * 40 + second, ...others].flatMap(number => {
    const digits = [number & 0x7f]
    for (let rest = number >> 7; rest > 0; rest >>= 7) digits.unshift(0x80 | (rest & 0x7f))
    return digits
  })
  return encode(tags.OBJECT_IDENTIFIER, Buffer.from(bytes))
}

const firstYearOfGeneralizedTime = 2050

/** Encodes a time in whole seconds, in the form that RFC 5280 (4.1.2.5) requires for its year. */
export function time(ms: number): Buffer {
  const date = new Date(ms)
  const digits = `${date.toISOString().replace(/[-:T]|\.\d+Z$/g, '')}Z`
  return date.getUTCFullYear() < firstYearOfGeneralizedTime
    ? encode(tags.UTC_TIME, Buffer.from(digits.slice(2)))
    : encode(tags.GENERALIZED_TIME, Buffer.from(digits))
}
