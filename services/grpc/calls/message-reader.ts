import { messagePrefixBytes } from '../http2/streams/stream.ts'
import { GrpcError } from '../status.ts'
import { decompress, isSupported } from './compression.ts'

/**
 * The least size of a buffer for an incomplete message. A larger buffer is at most twice as large as the
 * received bytes.
 */
const minBufferBytes = 1024
/**
 * The largest buffer for short messages. Each new one is twice as large as the previous one, because
 * allocating costs more than filling.
 */
const maxSharedBytes = 16 * 1024

/**
 * Returns a view of the message if the bytes from `start` to before `end` are exactly one message, which is
 * not compressed and not longer than `maxBytes`.
 */
export function onlyMessage(
  buffer: Buffer,
  start: number,
  end: number,
  maxBytes: number,
): Uint8Array | undefined {
  const length = end - start - messagePrefixBytes
  if (length < 0 || length > maxBytes) return undefined
  if (buffer[start] !== 0 || buffer.readUInt32BE(start + 1) !== length) return undefined
  return buffer.subarray(start + messagePrefixBytes, end)
}

/**
 * Assembles messages from chunks. A pushed chunk is lent: a message taken before `keep` is a view of its
 * chunk. `keep` copies the bytes that were not taken to the reader's own memory, which short messages share.
 */
export class MessageReader {
  readonly #maxBytes: number
  readonly #compression: string
  /** The bytes to read next, from `#start` to before `#end`, in own memory or a lent chunk. */
  #buffer: Buffer = noBuffer
  #start = 0
  #end = 0
  /** The lent chunks that follow `#buffer`. */
  #behind: Buffer[] = []
  #behindBytes = 0
  #own: Buffer = noBuffer
  /** The used bytes of `#own`. */
  #ownEnd = 0

  /** @param compression the grpc-encoding of the request */
  constructor(maxBytes: number, compression: string) {
    this.#maxBytes = maxBytes
    this.#compression = compression
  }

  /** The pushed bytes that were not taken. */
  get heldBytes(): number {
    return this.#end - this.#start + this.#behindBytes
  }

  /** The own memory with bytes that were not taken. */
  get ownBytes(): number {
    return this.heldBytes === 0 ? 0 : this.#own.length
  }

  /** Whether bytes that were not taken are in lent chunks. */
  get lends(): boolean {
    return this.#behindBytes > 0 || (this.#end > this.#start && this.#buffer !== this.#own)
  }

  /** The caller must not change the chunk before `keep`. */
  push(bytes: Buffer): void {
    if (this.heldBytes === 0) this.#setCurrent(bytes, 0, bytes.length)
    else {
      this.#behind.push(bytes)
      this.#behindBytes += bytes.length
    }
  }

  /** Copies bytes that were not taken to own memory. From then on, no lent chunk is used. */
  keep(): void {
    this.#copyCurrent()
    for (const bytes of this.#behind) this.#copy(bytes)
    this.#behind = []
    this.#behindBytes = 0
  }

  /**
   * Returns the next complete message, decompressed; the reader does not use its memory again.
   *
   * @throws GrpcError as soon as the prefix shows that the message is invalid or too long, or when it cannot
   *   be decompressed
   */
  take(): Uint8Array | undefined {
    let message = this.#takeFromCurrent()
    while (message === undefined && this.#advance()) message = this.#takeFromCurrent()
    if (this.heldBytes === 0 && this.#own.length > maxSharedBytes) this.#dropOwn()
    return message
  }

  #takeFromCurrent(): Uint8Array | undefined {
    if (this.#end - this.#start < messagePrefixBytes) return undefined
    const flag = this.#buffer.readUInt8(this.#start)
    const length = this.#checkedLength(flag, this.#buffer.readUInt32BE(this.#start + 1))
    const end = this.#start + messagePrefixBytes + length
    if (end > this.#end) return undefined
    this.#start = end
    const message = this.#buffer.subarray(end - length, end)
    return flag === 0 ? message : decompress(message, this.#maxBytes)
  }

  #checkedLength(flag: number, length: number): number {
    const isCompressed = flag === 1 && this.#compression !== 'identity'
    if (isCompressed && !isSupported(this.#compression)) {
      throw new GrpcError('UNIMPLEMENTED', `grpc-encoding ${this.#compression} is not supported`)
    }
    if (flag !== 0 && !isCompressed)
      throw new GrpcError('INTERNAL', `the flag of a message is ${flag}, only 0 is expected`)
    if (length > this.#maxBytes) {
      const allowed = `at most ${this.#maxBytes} are allowed`
      throw new GrpcError('RESOURCE_EXHAUSTED', `the request message has ${length} bytes, ${allowed}`)
    }
    return length
  }

  #setCurrent(buffer: Buffer, start: number, end: number): void {
    this.#buffer = buffer
    this.#start = start
    this.#end = end
  }

  /**
   * Continues with the next lent chunk; returns false without one. If `#buffer` has a part of a message, both
   * are copied to own memory.
   */
  #advance(): boolean {
    const next = this.#behind.shift()
    if (next === undefined) return false
    this.#behindBytes -= next.length
    if (this.#start === this.#end) this.#setCurrent(next, 0, next.length)
    else {
      this.#copyCurrent()
      this.#copy(next)
    }
    return true
  }

  #copyCurrent(): void {
    if (this.#buffer === this.#own) return
    const held = this.#buffer.subarray(this.#start, this.#end)
    this.#setCurrent(this.#own, this.#ownEnd, this.#ownEnd)
    if (held.length > 0) this.#copy(held)
  }

  #copy(bytes: Buffer): void {
    if (this.#ownEnd + bytes.length > this.#own.length) this.#makeRoom(bytes.length)
    bytes.copy(this.#own, this.#ownEnd)
    this.#ownEnd += bytes.length
    this.#end = this.#ownEnd
  }

  /** The size of the next message with its prefix; infinity if the prefix is not complete. */
  #nextBytes(): number {
    if (this.#end - this.#start < messagePrefixBytes) return Number.POSITIVE_INFINITY
    return messagePrefixBytes + this.#buffer.readUInt32BE(this.#start + 1)
  }

  /** The old memory is not reused, since messages that were taken are views of it. */
  #makeRoom(bytes: number): void {
    const held = this.#end - this.#start
    const shared = Math.min(maxSharedBytes, 2 * this.#own.length)
    const grown = Math.max(held + bytes, Math.min(2 * (held + bytes), this.#nextBytes()))
    const larger = Buffer.allocUnsafeSlow(Math.max(minBufferBytes, shared, grown))
    this.#own.copy(larger, 0, this.#start, this.#end)
    this.#own = larger
    this.#ownEnd = held
    this.#setCurrent(larger, 0, held)
  }

  clear(): void {
    this.#behind = []
    this.#behindBytes = 0
    this.#dropOwn()
  }

  #dropOwn(): void {
    this.#own = noBuffer
    this.#ownEnd = 0
    this.#setCurrent(noBuffer, 0, 0)
  }
}

const noBuffer = Buffer.alloc(0)
