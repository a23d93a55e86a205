/**
 * Writes requests of the Redis protocol (RESP2) one after the other into one buffer, which is used again for
 * the next write: no string and no list is made on the way.
 */
export interface RequestWriter {
  /** How many requests were begun since the last `clear`. */
  readonly requests: number
  /** Begins a request; as many arguments must follow as its head says. */
  begin(head: RequestHead): void
  /** An argument, as UTF-8. */
  text(argument: string): void
  /** An argument that is a whole number, 0 to 2^53-1, in decimal. */
  integer(argument: number): void
  /** What was written since the last `clear`; a view that the next call of `begin` may overwrite. */
  bytes(): Buffer
  /** Begins anew, in the same memory only when nobody reads the view any more. */
  clear(reusable: boolean): void
}

/** How a request begins: the number of its parts, and its name. */
export type RequestHead = Uint8Array

export function requestHead(name: string, argumentCount: number): RequestHead {
  return Buffer.from(`*${argumentCount + 1}\r\n$${name.length}\r\n${name}\r\n`, 'latin1')
}

const initialBytes = 16_384
/** A buffer that one burst made larger than this is not kept. */
const maxKeptBytes = 1_048_576
/** `$`, a length or a number of up to 16 digits, and the end of the line. */
const maxLineBytes = 19
/** The most bytes of UTF-8 that one unit of a string takes; two units that make a pair take four. */
const maxBytesPerUnit = 3

const dollar = 0x24
const zero = 0x30
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

  // A field and not an accessor, with which V8 would keep the object as a hash table.
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
        // Not ASCII alone: the length was wrong, and it may have had fewer digits.
        length = start
        lengthLine(bytes)
        buffer.write(argument, length)
      }
      length += bytes
      endLine()
    },
    integer(argument) {
      reserve(2 * maxLineBytes)
      const count = digitCount(argument)
      lengthLine(count)
      digits(argument, count)
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
