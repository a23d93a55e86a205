/**
 * Encodes requests of the Redis protocol (RESP2) into one buffer, which the next write reuses. It allocates
 * no strings or arrays.
 */
export interface RequestWriter {
  /** The number of requests since the last `clear`. */
  readonly requests: number
  /** Begins a request; the number of arguments in its head must follow. */
  begin(head: RequestHead): void
  /** Writes an argument as UTF-8. */
  text(argument: string): void
  /** Writes an argument that is an integer from -(2^53-1) to 2^53-1, in decimal. */
  integer(argument: number): void
  /** Returns the bytes since the last `clear`, as a view that the next call of `begin` may overwrite. */
  bytes(): Buffer
  /** Starts the next write. `reusable` allows it to overwrite the memory of the view. */
  clear(reusable: boolean): void
}

/** The beginning of a request: the number of its parts, and its name. */
export type RequestHead = Uint8Array

export function requestHead(name: string, argumentCount: number): RequestHead {
  return Buffer.from(`*${argumentCount + 1}\r\n$${name.length}\r\n${name}\r\n`, 'latin1')
}

const initialBytes = 16_384
/** A larger buffer, grown by a burst, is freed. */
const maxKeptBytes = 1_048_576
/** `$`, a length or a number of up to 16 digits with a sign, and the line end. */
const maxLineBytes = 20
/** The most bytes of UTF-8 for one UTF-16 code unit; a surrogate pair takes four. */
const maxBytesPerUnit = 3

const dollar = 0x24
const zero = 0x30
const minus = 0x2d
const carriageReturn = 0x0d
const lineFeed = 0x0a

export function createRequestWriter(): RequestWriter {
  let buffer = Buffer.allocUnsafeSlow(initialBytes)
  let length = 0

  function reserve(bytes: number): void {
    if (length + bytes <= buffer.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * buffer.length, length + bytes))
    buffer.copy(larger, 0, 0, length)
    buffer = larger
  }

  function endLine(): void {
    buffer[length] = carriageReturn
    buffer[length + 1] = lineFeed
    length += 2
  }

  function digits(value: number, count: number): void {
    let rest = value
    for (let at = length + count - 1; at >= length; at -= 1) {
      const next = Math.floor(rest / 10)
      buffer[at] = zero + (rest - 10 * next)
      rest = next
    }
    length += count
  }

  function lengthLine(bytes: number): void {
    buffer[length] = dollar
    length += 1
    digits(bytes, digitCount(bytes))
    endLine()
  }

  // A field, since V8 keeps an object with an accessor as a hash table.
  const writer: RequestWriter & { requests: number } = {
    requests: 0,
    begin(head) {
      reserve(head.length)
      for (let index = 0; index < head.length; index += 1) buffer[length + index] = head[index] ?? 0
      length += head.length
      writer.requests += 1
    },
    text(argument) {
      reserve(2 * maxLineBytes + maxBytesPerUnit * argument.length)
      const start = length
      lengthLine(argument.length)
      const bytes = buffer.write(argument, length)
      if (bytes !== argument.length) {
        // The text is not ASCII: the length was wrong, and may have had fewer digits.
        length = start
        lengthLine(bytes)
        buffer.write(argument, length)
      }
      length += bytes
      endLine()
    },
    integer(argument) {
      reserve(2 * maxLineBytes)
      const absolute = Math.abs(argument)
      const count = digitCount(absolute)
      if (argument < 0) {
        lengthLine(count + 1)
        buffer[length] = minus
        length += 1
      } else lengthLine(count)
      digits(absolute, count)
      endLine()
    },
    bytes: () => buffer.subarray(0, length),
    clear(reusable) {
      length = 0
      writer.requests = 0
      if (!reusable || buffer.length > maxKeptBytes) buffer = Buffer.allocUnsafeSlow(initialBytes)
    },
  }
  return writer
}

function digitCount(value: number): number {
  let count = 1
  for (let bound = 10; value >= bound; bound *= 10) count += 1
  return count
}
