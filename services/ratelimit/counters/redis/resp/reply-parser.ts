/**
 * A reply of Redis. An integer beyond `Number.MAX_SAFE_INTEGER` is a bigint. A simple string and a bulk
 * string are both a string. A null bulk string and a null array are both null.
 */
export type RedisReply = number | bigint | string | null | ErrorReply | readonly RedisReply[]

/** An error reply: Redis rejected the request. The text begins with a code, such as `READONLY` or `MOVED`. */
interface ErrorReply {
  readonly error: string
}

/** Returns whether the reply is an error; false for a missing reply. */
export function isErrorReply(reply: RedisReply | undefined): reply is ErrorReply {
  return typeof reply === 'object' && reply !== null && 'error' in reply
}

export function isArrayReply(reply: RedisReply | undefined): reply is readonly RedisReply[] {
  return Array.isArray(reply)
}

interface ReplyLimits {
  /** The largest simple string or error text. */
  readonly maxLineBytes: number
  /** The largest reply: a bulk string, or an array with its items. */
  readonly maxReplyBytes: number
  readonly maxDepth: number
}

const defaultReplyLimits: ReplyLimits = { maxLineBytes: 16_384, maxReplyBytes: 1_048_576, maxDepth: 8 }

/** The number of digits of 2^63, the largest magnitude of an integer in Redis. */
const maxDigits = 19
/** A buffer for incomplete replies that grew beyond this size is freed once it is empty. */
const maxStoredBytes = 65_536

const noBytes: Buffer = Buffer.alloc(0)
const carriageReturn = 0x0d
const lineFeed = 0x0a
const minus = 0x2d
const types = { simple: 0x2b, error: 0x2d, integer: 0x3a, bulk: 0x24, array: 0x2a }

/**
 * Parses replies of the Redis protocol, RESP2
 * (https://redis.io/docs/latest/develop/reference/protocol-spec/). Complete replies are not copied. An
 * incomplete reply is parsed again from its beginning when more bytes arrive; one that ends within a bulk
 * string, only when all bytes of that string have arrived.
 *
 * @param onReply called for each reply in order, from within `push`
 */
export function createReplyParser(onReply: (reply: RedisReply) => void, limits: Partial<ReplyLimits> = {}) {
  const { maxLineBytes, maxReplyBytes, maxDepth } = { ...defaultReplyLimits, ...limits }
  const store = createStore()
  let source = noBytes
  let at = 0
  let end = 0
  /** The incomplete reply has at least this many bytes; 0 if unknown. */
  let needed = 0
  let problem: string | undefined

  function reject(text: string): undefined {
    problem ??= text
  }

  /** Returns undefined, like the functions below, when the reply is incomplete or malformed. */
  function reply(depth: number): RedisReply | undefined {
    if (at >= end) return undefined
    const type = source[at]
    at += 1
    if (type === types.integer) return integer()
    if (type === types.bulk) return bulk()
    if (type === types.simple) return line()
    if (type === types.array) return array(depth)
    if (type !== types.error) return reject('a reply of unknown type')
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
    if (next - start > maxDigits) return reject(`a number of more than ${maxDigits} digits`)
    if (next < end && next === start) return reject('a number without digits')
    if (!endsLine(next)) return undefined
    if (value <= Number.MAX_SAFE_INTEGER) return negative ? 0 - value : value
    const exact = BigInt(source.toString('latin1', start, next))
    return negative ? -exact : exact
  }

  /** Returns whether the line ends at `position`, and if so moves behind the line end. */
  function endsLine(position: number): boolean {
    if (position < end && source[position] !== carriageReturn) reject('a line that does not end with CR LF')
    if (position + 1 >= end) return false
    if (source[position + 1] !== lineFeed) reject('a line that does not end with CR LF')
    at = position + 2
    return problem === undefined
  }

  function line(): string | undefined {
    const start = at
    const limit = Math.min(end, start + maxLineBytes + 1)
    let next = start
    while (next < limit && source[next] !== carriageReturn && source[next] !== lineFeed) next += 1
    if (next - start > maxLineBytes) return reject(`a line of more than ${maxLineBytes} bytes`)
    return endsLine(next) ? source.toString('utf8', start, next) : undefined
  }

  /** Reads the length of a bulk string or an array; -1 stands for null. */
  function count(): number | undefined {
    const value = integer()
    if (value === undefined) return undefined
    if (value >= -1 && value <= maxReplyBytes) return Number(value)
    return reject(`a length outside -1 to ${maxReplyBytes}`)
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

  function array(depth: number): readonly RedisReply[] | null | undefined {
    const length = count()
    if (length === undefined || length < 0) return length === undefined ? undefined : null
    if (depth >= maxDepth) return reject(`arrays more than ${maxDepth} deep`)
    const items: RedisReply[] = []
    while (items.length < length) {
      const item = reply(depth + 1)
      if (item === undefined) return undefined
      items.push(item)
    }
    return items
  }

  return {
    /**
     * Parses the first `length` bytes of the chunk, which may end anywhere in a reply. An incomplete reply is
     * copied, so that the chunk's memory may be reused.
     *
     * @returns a description of invalid bytes, which quotes none of them; nothing more is parsed from then on
     */
    push(chunk: Buffer, length: number): string | undefined {
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
      if (end - done > maxReplyBytes + maxLineBytes) reject(`a reply of more than ${maxReplyBytes} bytes`)
      needed = Math.max(0, needed - done)
      if (source === chunk) store.append(chunk, done, end, needed)
      else store.drop(done)
      return problem
    },
  }
}

/** The beginning of an incomplete reply. */
function createStore() {
  const store = {
    buffer: noBytes,
    length: 0,
    /** @param capacity the expected total length, if known */
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
    drop(bytes: number): void {
      store.buffer.copyWithin(0, bytes, store.length)
      store.length -= bytes
      if (store.length === 0 && store.buffer.length > maxStoredBytes) store.buffer = noBytes
    },
  }
  return store
}
