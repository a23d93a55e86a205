import type { Count } from '../batching/sum-equal-keys.ts'

/**
 * A reply of memcached: a counter's new value, a word, the result of a read, or an error. A value beyond
 * 2^53-1 is a bigint.
 */
export type MemcachedReply = Count | Word | ValueReply | ErrorReply

type Word = 'STORED' | 'NOT_STORED' | 'TOUCHED' | 'NOT_FOUND'

/** The result of `get` of one key: 0 if the key is missing, undefined if the value is not a number. */
interface ValueReply {
  readonly value: Count | undefined
}

/** An error reply; the text begins with `ERROR`, `CLIENT_ERROR` or `SERVER_ERROR`. */
interface ErrorReply {
  readonly error: string
}

export function isValueReply(reply: MemcachedReply | undefined): reply is ValueReply {
  return typeof reply === 'object' && 'value' in reply
}

export function isMemcachedError(reply: MemcachedReply | undefined): reply is ErrorReply {
  return typeof reply === 'object' && 'error' in reply
}

/** The maximum length of an error, and of the line before a value. */
const maxLineBytes = 2_048
/** The maximum length of a value, memcached's default. Only the first digits of a value are kept. */
const maxValueBytes = 1_048_576
/** The number of digits of 2^64-1, the largest value of a counter. */
const maxDigits = 20

const carriageReturn = 0x0d
const lineFeed = 0x0a

/**
 * Parses replies of the text protocol to `incr`, `decr`, `add`, `touch` and `get` of one key
 * (https://github.com/memcached/memcached/blob/master/doc/protocol.txt). Complete replies are not copied.
 */
export class MemcachedReplyParser {
  readonly #onReply: (reply: MemcachedReply) => void
  readonly #store = Buffer.allocUnsafeSlow(maxLineBytes)
  #stored = 0
  /** The missing bytes of the current value, including the CR LF behind it; 0 outside a value. */
  #valueBytes = 0
  /** The first characters of the current value; undefined once END has arrived behind it. */
  #value: string | undefined
  #problem: string | undefined

  /** @param onReply called for each reply in order, from within `push` */
  constructor(onReply: (reply: MemcachedReply) => void) {
    this.#onReply = onReply
  }

  /**
   * Parses the first `length` bytes of the chunk, which may end anywhere in a reply. An incomplete reply is
   * copied, so that the chunk's memory may be reused.
   *
   * @returns a description of invalid bytes, which quotes none of them; nothing more is parsed from then on
   */
  push(chunk: Buffer, length: number): string | undefined {
    let at = 0
    while (at < length && this.#problem === undefined) {
      at = this.#valueBytes > 0 ? this.#readValue(chunk, at, length) : this.#readLine(chunk, at, length)
    }
    return this.#problem
  }

  #reject(problem: string): void {
    this.#problem ??= problem
  }

  /** @returns the index behind the bytes that were read */
  #readValue(chunk: Buffer, start: number, length: number): number {
    let at = start
    for (; at < length && this.#valueBytes > 0; at += 1) {
      const byte = chunk[at] ?? 0
      if (this.#valueBytes <= 2) {
        if (byte !== (this.#valueBytes === 2 ? carriageReturn : lineFeed))
          this.#reject('a value that does not end with CR LF')
      } else if (this.#value !== undefined && this.#value.length <= maxDigits)
        this.#value += String.fromCharCode(byte)
      this.#valueBytes -= 1
    }
    return at
  }

  /** @returns the index behind the bytes that were read */
  #readLine(chunk: Buffer, start: number, length: number): number {
    let end = start
    while (end < length && chunk[end] !== lineFeed) end += 1
    const isWhole = end < length
    if (this.#stored + end - start > maxLineBytes) {
      this.#reject(`a line of more than ${maxLineBytes} bytes`)
      return length
    }
    if (isWhole && this.#stored === 0) this.#onLine(chunk, start, end)
    else {
      chunk.copy(this.#store, this.#stored, start, end)
      this.#stored += end - start
      if (!isWhole) return length
      const bytes = this.#stored
      this.#stored = 0
      this.#onLine(this.#store, 0, bytes)
    }
    return end + 1
  }

  /** @param end the index of the line feed */
  #onLine(source: Buffer, start: number, end: number): void {
    const stop = end - 1
    if (stop < start || source[stop] !== carriageReturn) {
      this.#reject('a line that does not end with CR LF')
      return
    }
    const count = this.#value === undefined ? readCount(source, start, stop) : undefined
    if (count === undefined) this.#onText(source.toString('utf8', start, stop))
    else this.#onReply(count)
  }

  #onText(line: string): void {
    if (this.#value !== undefined) this.#onEndOfValue(line, this.#value)
    else if (isWord(line)) this.#onReply(line)
    else if (line === 'END') this.#onReply({ value: 0 })
    else if (/^(ERROR$|CLIENT_ERROR |SERVER_ERROR )/.test(line)) this.#onReply({ error: line })
    else this.#onValueLine(line)
  }

  #onEndOfValue(line: string, value: string): void {
    if (line !== 'END') {
      this.#reject('a value that is not followed by END')
      return
    }
    this.#value = undefined
    this.#onReply({ value: parseValue(value) })
  }

  #onValueLine(line: string): void {
    const bytes = Number(/^VALUE \S+ \d+ (\d{1,10})$/.exec(line)?.[1])
    if (Number.isNaN(bytes)) this.#reject('a reply of unknown kind')
    else if (bytes > maxValueBytes) this.#reject(`a value of more than ${maxValueBytes} bytes`)
    else {
      this.#value = ''
      this.#valueBytes = bytes + 2
    }
  }
}

function isWord(line: string): line is Word {
  return line === 'NOT_FOUND' || line === 'STORED' || line === 'NOT_STORED' || line === 'TOUCHED'
}

/** Returns undefined when the bytes are not the digits of a number. */
function readCount(source: Buffer, start: number, stop: number): Count | undefined {
  if (stop === start || stop - start > maxDigits) return undefined
  let count = 0
  for (let at = start; at < stop; at += 1) {
    const digit = (source[at] ?? 0) - 0x30
    if (digit < 0 || digit > 9) return undefined
    count = count * 10 + digit
  }
  return count <= Number.MAX_SAFE_INTEGER ? count : BigInt(source.toString('latin1', start, stop))
}

/** Parses a value as `incr` does: digits up to the end or to a space, because `decr` pads with spaces. */
function parseValue(text: string): Count | undefined {
  const digits = /^(\d{1,20})(?: |$)/.exec(text)?.[1]
  if (digits === undefined) return undefined
  const count = Number(digits)
  return count <= Number.MAX_SAFE_INTEGER ? count : BigInt(digits)
}
