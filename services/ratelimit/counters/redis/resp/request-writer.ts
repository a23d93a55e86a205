/** The beginning of an encoded request: the number of its words, and the first word, the command's name. */
type RequestHead = Uint8Array

export function requestHead(name: string, argumentCount: number): RequestHead {
  return Buffer.from(`*${argumentCount + 1}\r\n$${name.length}\r\n${name}\r\n`, 'latin1')
}

const initialBytes = 16_384
/** After a write, a buffer that a burst has made larger than this is freed. */
const maxReusedBytes = 1_048_576
/** The length of a line: `$`, a length or a number of up to 16 digits with a sign, and the line end. */
const maxLineBytes = 20
/** The most bytes of UTF-8 for a unit of UTF-16; the two units of a surrogate pair take four together. */
const maxBytesPerUnit = 3

const dollar = 0x24
const zero = 0x30
const minus = 0x2d
const carriageReturn = 0x0d
const lineFeed = 0x0a

/** Encodes requests of RESP2 into one buffer, which later writes may reuse, without strings or arrays. */
export class RespWriter {
  #buffer = Buffer.allocUnsafeSlow(initialBytes)
  #length = 0
  #requests = 0

  get requests(): number {
    return this.#requests
  }

  /** Begins a request. As many arguments as its head declares must follow. */
  begin(head: RequestHead): void {
    this.#reserve(head.length)
    const buffer = this.#buffer
    const start = this.#length
    for (let index = 0; index < head.length; index += 1) buffer[start + index] = head[index] ?? 0
    this.#length += head.length
    this.#requests += 1
  }

  text(argument: string): void {
    this.#reserve(2 * maxLineBytes + maxBytesPerUnit * argument.length)
    const start = this.#length
    this.#lengthLine(argument.length)
    const bytes = this.#buffer.write(argument, this.#length)
    if (bytes !== argument.length) {
      // The text is not ASCII: the length was wrong, and may have had fewer digits than the number of bytes.
      this.#length = start
      this.#lengthLine(bytes)
      this.#buffer.write(argument, this.#length)
    }
    this.#length += bytes
    this.#endLine()
  }

  /** Writes an argument that is an integer from -(2^53-1) to 2^53-1, in decimal. */
  integer(argument: number): void {
    this.#reserve(2 * maxLineBytes)
    const absolute = Math.abs(argument)
    const count = digitCount(absolute)
    if (argument < 0) {
      this.#lengthLine(count + 1)
      this.#buffer[this.#length] = minus
      this.#length += 1
    } else this.#lengthLine(count)
    this.#digits(absolute, count)
    this.#endLine()
  }

  /** Returns the bytes since the last `clear`, as a view that the next call of `begin` may overwrite. */
  bytes(): Buffer {
    return this.#buffer.subarray(0, this.#length)
  }

  /** Discards the written requests. If `reusable`, the memory of the view from `bytes` may be overwritten. */
  clear(reusable: boolean): void {
    this.#length = 0
    this.#requests = 0
    if (!reusable || this.#buffer.length > maxReusedBytes) this.#buffer = Buffer.allocUnsafeSlow(initialBytes)
  }

  #reserve(bytes: number): void {
    if (this.#length + bytes <= this.#buffer.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * this.#buffer.length, this.#length + bytes))
    this.#buffer.copy(larger, 0, 0, this.#length)
    this.#buffer = larger
  }

  #lengthLine(bytes: number): void {
    this.#buffer[this.#length] = dollar
    this.#length += 1
    this.#digits(bytes, digitCount(bytes))
    this.#endLine()
  }

  #digits(value: number, count: number): void {
    const buffer = this.#buffer
    const start = this.#length
    let rest = value
    for (let at = start + count - 1; at >= start; at -= 1) {
      const next = Math.floor(rest / 10)
      buffer[at] = zero + (rest - 10 * next)
      rest = next
    }
    this.#length = start + count
  }

  #endLine(): void {
    this.#buffer[this.#length] = carriageReturn
    this.#buffer[this.#length + 1] = lineFeed
    this.#length += 2
  }
}

function digitCount(value: number): number {
  let count = 1
  for (let bound = 10; value >= bound; bound *= 10) count += 1
  return count
}
