import { GrpcError } from './status.ts'

/** A flag and four bytes of length come before each message. */
export const prefixBytes = 5
/** A message that is still coming gets no more memory than twice what has come, but this at once. */
const minBufferBytes = 1024
/**
 * A stream that goes on gets buffers for several messages, each twice as large as the one before, up to this: to
 * make one costs more than to fill it.
 */
const maxSharedBytes = 16 * 1024

/**
 * The message, in the same memory, when the bytes are exactly one that is not compressed and not too long;
 * else undefined.
 */
export function onlyMessage(bytes: Buffer, maxBytes: number): Uint8Array | undefined {
  const length = bytes.length - prefixBytes
  if (length < 0 || length > maxBytes) return undefined
  if (bytes.readUInt8(0) !== 0 || bytes.readUInt32BE(1) !== length) return undefined
  return bytes.subarray(prefixBytes)
}

/**
 * Puts messages together, however the bytes are cut. What can be taken at once lies where it came; the rest is copied,
 * so that whoever keeps a part of it keeps nothing else alive but what comes before and after it, and these only
 * while they are short.
 */
export class MessageReader {
  readonly #maxBytes: number
  readonly #compression: string
  /** What waits lies between `start` and `end` of this: of our own memory, or of the bytes that came last. */
  #buffer: Buffer = noBuffer
  #start = 0
  #end = 0
  #own: Buffer = noBuffer
  /** Up to here our own memory is used. */
  #ownEnd = 0

  /** `compression` is the grpc-encoding of the request. */
  constructor(maxBytes: number, compression: string) {
    this.#maxBytes = maxBytes
    this.#compression = compression
  }

  /** How many bytes wait to be taken. */
  get heldBytes(): number {
    return this.#end - this.#start
  }

  /** Takes bytes that are only lent until `keep`, which is to be called after what can be taken at once. */
  push(bytes: Buffer): void {
    if (this.heldBytes > 0) {
      this.#copy(bytes)
      return
    }
    this.#buffer = bytes
    this.#start = 0
    this.#end = bytes.length
  }

  /** What was pushed and not taken goes into memory of its own. */
  keep(): void {
    if (this.#buffer === this.#own) return
    const held = this.#buffer.subarray(this.#start, this.#end)
    this.#buffer = this.#own
    this.#start = this.#ownEnd
    this.#end = this.#ownEnd
    if (held.length > 0) this.#copy(held)
  }

  /**
   * The next message when all of it is here. It is the caller's.
   *
   * @throws GrpcError as soon as its prefix says that it cannot be taken.
   */
  take(): Uint8Array | undefined {
    if (this.heldBytes < prefixBytes) return undefined
    const length = this.#checkedLength(
      this.#buffer.readUInt8(this.#start),
      this.#buffer.readUInt32BE(this.#start + 1),
    )
    const end = this.#start + prefixBytes + length
    if (end > this.#end) return undefined
    const message = this.#buffer.subarray(end - length, end)
    this.#start = end
    if (this.heldBytes === 0 && this.#own.length > maxSharedBytes) this.#dropOwn()
    return message
  }

  #checkedLength(flag: number, length: number): number {
    if (flag === 1 && this.#compression !== 'identity') {
      throw new GrpcError('UNIMPLEMENTED', `grpc-encoding ${this.#compression} is not supported`)
    }
    if (flag !== 0) throw new GrpcError('INTERNAL', `the flag of a message is ${flag}, only 0 is expected`)
    if (length > this.#maxBytes) {
      const allowed = `at most ${this.#maxBytes} are allowed`
      throw new GrpcError('RESOURCE_EXHAUSTED', `the request message has ${length} bytes, ${allowed}`)
    }
    return length
  }

  /** Puts bytes behind those that are held, in our own memory. */
  #copy(bytes: Buffer): void {
    this.keep()
    if (this.#ownEnd + bytes.length > this.#own.length) this.#makeRoom(bytes.length)
    bytes.copy(this.#own, this.#ownEnd)
    this.#ownEnd += bytes.length
    this.#end = this.#ownEnd
  }

  /** New memory each time: messages that were taken lie in the old one. */
  #makeRoom(bytes: number): void {
    const held = this.heldBytes
    const shared = Math.min(maxSharedBytes, 2 * this.#own.length)
    const larger = Buffer.allocUnsafeSlow(Math.max(minBufferBytes, shared, 2 * (held + bytes)))
    this.#own.copy(larger, 0, this.#start, this.#end)
    this.#own = larger
    this.#ownEnd = held
    this.#buffer = larger
    this.#start = 0
    this.#end = held
  }

  #dropOwn(): void {
    this.#own = noBuffer
    this.#ownEnd = 0
    this.#buffer = noBuffer
    this.#start = 0
    this.#end = 0
  }
}

const noBuffer = Buffer.alloc(0)
