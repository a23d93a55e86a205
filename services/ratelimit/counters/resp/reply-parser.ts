/**
 * A reply of Redis. An integer beyond what a number holds exactly is a bigint. A simple string and a bulk
 * string are both a string, and null is either kind of nothing.
 */
export type Reply = number | bigint | string | null | ErrorReply | readonly Reply[]

/** Redis refused the request; the text begins with its code, such as `READONLY` or `MOVED 3999 host:port`. */
export interface ErrorReply {
  readonly error: string
}

/** Whether it is an error; false for a reply that is missing. */
export function isErrorReply(reply: Reply | undefined): reply is ErrorReply {
  return typeof reply === 'object' && reply !== null && 'error' in reply
}

export function isArrayReply(reply: Reply | undefined): reply is readonly Reply[] {
  return Array.isArray(reply)
}

export interface ReplyParser {
  /**
   * Reads the first `length` bytes of the chunk, which may end anywhere in a reply; what is not complete is
   * copied, so that the chunk's memory may be used again.
   *
   * @returns what is wrong when this is not the protocol; then nothing more can be read. It quotes nothing of
   *   what came.
   */
  push(chunk: Buffer, length: number): string | undefined
}

export interface ReplyLimits {
  /** A simple string or an error. */
  readonly maxLineBytes: number
  /** A reply as a whole: a bulk string, or an array with all that is in it. */
  readonly maxReplyBytes: number
  /** Arrays within arrays. */
  readonly maxDepth: number
}

export const defaultReplyLimits: ReplyLimits = { maxLineBytes: 16_384, maxReplyBytes: 1_048_576, maxDepth: 8 }

/** Those of 2^63, the most that an integer of Redis has. */
const maxDigits = 19
/** Memory for a part of a reply that is larger than this is not kept. */
const maxStoredBytes = 65_536

const noBytes: Buffer = Buffer.alloc(0)
const carriageReturn = 0x0d
const lineFeed = 0x0a
const minus = 0x2d
const types = { simple: 0x2b, error: 0x2d, integer: 0x3a, bulk: 0x24, array: 0x2a }

/**
 * Reads replies of the Redis protocol, RESP2 (https://redis.io/docs/latest/develop/reference/protocol-spec/),
 * where they lie. A reply that a chunk cuts is read from its beginning again once more of it has come, but a
 * bulk string not before all of it is there.
 *
 * @param onReply called for each reply in its order, from within `push`
 */
export function createReplyParser(
  onReply: (reply: Reply) => void,
  limits: ReplyLimits = defaultReplyLimits,
): ReplyParser {
  const { maxLineBytes, maxReplyBytes, maxDepth } = limits
  const store = createStore()
  let source = noBytes
  let at = 0
  let end = 0
  /** Where the reply that is incomplete ends at the earliest. */
  let needed = 0
  let problem: string | undefined

  function refuse(text: string): undefined {
    problem ??= text
  }

  /** Undefined, here and below, when the reply is not complete or not well-formed. */
  function reply(depth: number): Reply | undefined {
    if (at >= end) return undefined
    const type = source[at]
    at += 1
    if (type === types.integer) return integer()
    if (type === types.bulk) return bulk()
    if (type === types.simple) return line()
    if (type === types.array) return array(depth)
    if (type !== types.error) return refuse('a reply of no known type')
    const error = line()
    return error === undefined ? undefined : { error }
  }

  function integer(): number | bigint | undefined {
    const negative = source[at] === minus
    const start = negative ? at + 1 : at
    let value = 0
    let next = start
    for (; next < end; next += 1) {
      const digit = (source[next] ?? 0) - 0x30
      if (digit < 0 || digit > 9) break
      value = value * 10 + digit
    }
    if (next - start > maxDigits) return refuse(`a number of more than ${maxDigits} digits`)
    if (next < end && next === start) return refuse('a number without digits')
    if (!endsLine(next)) return undefined
    if (value <= Number.MAX_SAFE_INTEGER) return negative ? 0 - value : value
    const exact = BigInt(source.toString('latin1', start, next))
    return negative ? -exact : exact
  }

  /** Whether the line's end lies there, and if so, goes on behind it. */
  function endsLine(position: number): boolean {
    if (position < end && source[position] !== carriageReturn) refuse('a line that does not end')
    if (position + 1 >= end) return false
    if (source[position + 1] !== lineFeed) refuse('a line that does not end')
    at = position + 2
    return problem === undefined
  }

  function line(): string | undefined {
    const start = at
    const limit = Math.min(end, start + maxLineBytes + 1)
    let next = start
    while (next < limit && source[next] !== carriageReturn && source[next] !== lineFeed) next += 1
    if (next - start > maxLineBytes) return refuse(`a line of more than ${maxLineBytes} bytes`)
    return endsLine(next) ? source.toString('utf8', start, next) : undefined
  }

  /** -1 stands for nothing. */
  function count(): number | undefined {
    const value = integer()
    if (value === undefined) return undefined
    if (value >= -1 && value <= maxReplyBytes) return Number(value)
    return refuse(`a length that is not within -1 and ${maxReplyBytes}`)
  }

  function bulk(): string | null | undefined {
    const length = count()
    if (length === undefined || length < 0) return length === undefined ? undefined : null
    const start = at
    const stop = start + length
    if (stop + 2 > end) {
      needed = stop + 2
      return undefined
    }
    return endsLine(stop) ? source.toString('utf8', start, stop) : undefined
  }

  function array(depth: number): readonly Reply[] | null | undefined {
    const length = count()
    if (length === undefined || length < 0) return length === undefined ? undefined : null
    if (depth >= maxDepth) return refuse(`arrays more than ${maxDepth} deep`)
    const items: Reply[] = []
    while (items.length < length) {
      const item = reply(depth + 1)
      if (item === undefined) return undefined
      items.push(item)
    }
    return items
  }

  return {
    push(chunk, length) {
      if (problem !== undefined) return problem
      source = chunk
      end = length
      if (store.length > 0) {
        store.append(chunk, 0, length, needed)
        source = store.buffer
        end = store.length
        if (end < needed) return undefined
      }
      at = 0
      needed = 0
      let done = 0
      for (let next = reply(0); next !== undefined; next = reply(0)) {
        done = at
        onReply(next)
      }
      if (end - done > maxReplyBytes + maxLineBytes) refuse(`a reply of more than ${maxReplyBytes} bytes`)
      needed = Math.max(0, needed - done)
      if (source === chunk) store.append(chunk, done, end, needed)
      else store.drop(done)
      return problem
    },
  }
}

/** The beginning of a reply whose rest has not come yet. */
function createStore() {
  const store = {
    buffer: noBytes,
    length: 0,
    /** @param capacity how many bytes are expected in the end, as far as is known */
    append(chunk: Buffer, start: number, end: number, capacity: number): void {
      const total = store.length + end - start
      if (total > store.buffer.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(2 * store.buffer.length, total, capacity))
        store.buffer.copy(larger, 0, 0, store.length)
        store.buffer = larger
      }
      chunk.copy(store.buffer, store.length, start, end)
      store.length = total
    },
    /** Takes the first bytes away. */
    drop(bytes: number): void {
      store.buffer.copyWithin(0, bytes, store.length)
      store.length -= bytes
      if (store.length === 0 && store.buffer.length > maxStoredBytes) store.buffer = noBytes
    },
  }
  return store
}
