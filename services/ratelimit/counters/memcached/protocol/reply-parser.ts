import type { Count } from '../../batching/sum-equal-keys.ts'

/**
 * A reply of memcached: a counter's new value, a word, the result of a read, or an error. Values beyond
 * 2^53-1 are a bigint.
 */
export type Reply = Count | Word | ValueReply | ErrorReply

export type Word = 'STORED' | 'NOT_STORED' | 'TOUCHED' | 'NOT_FOUND'

/** The result of `get` of one key: 0 for a missing key, undefined for a value that is not a number. */
export interface ValueReply {
  readonly value: Count | undefined
}

/** The text begins with `ERROR`, `CLIENT_ERROR` or `SERVER_ERROR`. */
export interface ErrorReply {
  readonly error: string
}

export function isValueReply(reply: Reply | undefined): reply is ValueReply {
  return typeof reply === 'object' && 'value' in reply
}

export function isErrorReply(reply: Reply | undefined): reply is ErrorReply {
  return typeof reply === 'object' && 'error' in reply
}

export interface ReplyParser {
  /**
   * Parses the first `length` bytes of the chunk, which may end anywhere in a reply. An incomplete reply is
   * copied, so that the chunk's memory may be reused.
   *
   * @returns the error if the bytes are not valid; nothing more can be parsed then. It quotes none of the
   *   bytes.
   */
  push(chunk: Buffer, length: number): string | undefined
}

/** The length of an error, or of the line before a value. */
const maxLineBytes = 2_048
/** Memcached's default limit. Only the first digits of a value are kept. */
const maxValueBytes = 1_048_576
/** The digits of 2^64-1. */
const maxDigits = 20

const carriageReturn = 0x0d
const lineFeed = 0x0a

/**
 * Parses replies of the text protocol to `incr`, `add`, `touch` and `get` of one key
 * (https://github.com/memcached/memcached/blob/master/doc/protocol.txt), without copying complete ones.
 *
 * @param onReply called for each reply in order, from within `push`
 */
export function createReplyParser(onReply: (reply: Reply) => void): ReplyParser {
  /** The beginning of an incomplete line. */
  const store = Buffer.allocUnsafeSlow(maxLineBytes)
  let stored = 0
  /** The number of bytes of a value that have not arrived, including the line end behind it. */
  let valueBytes = 0
  /** The beginning of the current value, until its closing line has arrived. */
  let value: string | undefined
  let problem: string | undefined

  function refuse(text: string): void {
    problem ??= text
  }

  /** @returns the index behind the value */
  function readValue(chunk: Buffer, start: number, length: number): number {
    let at = start
    for (; at < length && valueBytes > 0; at += 1) {
      const byte = chunk[at] ?? 0
      if (valueBytes <= 2) {
        if (byte !== (valueBytes === 2 ? carriageReturn : lineFeed))
          refuse('a value that does not end with CR LF')
      } else if (value !== undefined && value.length <= maxDigits) value += String.fromCharCode(byte)
      valueBytes -= 1
    }
    return at
  }

  /** @returns the index behind the line */
  function readLine(chunk: Buffer, start: number, length: number): number {
    let end = start
    while (end < length && chunk[end] !== lineFeed) end += 1
    const isWhole = end < length
    if (stored + end - start > maxLineBytes) {
      refuse(`a line of more than ${maxLineBytes} bytes`)
      return length
    }
    if (isWhole && stored === 0) onLine(chunk, start, end)
    else {
      chunk.copy(store, stored, start, end)
      stored += end - start
      if (!isWhole) return length
      const bytes = stored
      stored = 0
      onLine(store, 0, bytes)
    }
    return end + 1
  }

  /** @param end the index of the line feed */
  function onLine(source: Buffer, start: number, end: number): void {
    const stop = end - 1
    if (stop < start || source[stop] !== carriageReturn) {
      refuse('a line that does not end with CR LF')
      return
    }
    const count = value === undefined ? readCount(source, start, stop) : undefined
    if (count === undefined) onText(source.toString('utf8', start, stop))
    else onReply(count)
  }

  function onText(line: string): void {
    if (value !== undefined) {
      if (line !== 'END') refuse('a value that is not followed by END')
      else {
        const text = value
        value = undefined
        onReply({ value: parseValue(text) })
      }
    } else if (isWord(line)) onReply(line)
    else if (line === 'END') onReply({ value: 0 })
    else if (/^(ERROR$|CLIENT_ERROR |SERVER_ERROR )/.test(line)) onReply({ error: line })
    else onValueLine(line)
  }

  function onValueLine(line: string): void {
    const bytes = Number(/^VALUE \S+ \d+ (\d{1,10})$/.exec(line)?.[1])
    if (Number.isNaN(bytes)) refuse('a reply of unknown kind')
    else if (bytes > maxValueBytes) refuse(`a value of more than ${maxValueBytes} bytes`)
    else {
      value = ''
      valueBytes = bytes + 2
    }
  }

  return {
    push(chunk, length) {
      let at = 0
      while (at < length && problem === undefined) {
        at = valueBytes > 0 ? readValue(chunk, at, length) : readLine(chunk, at, length)
      }
      return problem
    },
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

/** Parses a value as `incr` does: digits up to the end or a space, with which `decr` pads. */
function parseValue(text: string): Count | undefined {
  const digits = /^(\d{1,20})(?: |$)/.exec(text)?.[1]
  if (digits === undefined) return undefined
  const count = Number(digits)
  return count <= Number.MAX_SAFE_INTEGER ? count : BigInt(digits)
}
