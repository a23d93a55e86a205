import { GrpcError } from '../status.ts'
import { decompress, isSupported } from './compression.ts'

/** The size of a message's prefix: a flag, and the length in four bytes. */
export const prefixBytes = 5
/**
 * The smallest buffer for an incomplete message. Buffers are at most twice as large as the received bytes,
 * unless this is larger.
 */
const minBufferBytes = 1024
/**
 * The largest buffer that a stream of short messages shares. Each new buffer is twice as large as the
 * previous one, up to this size, since allocating a buffer costs more than filling it.
 */
const maxSharedBytes = 16 * 1024

/**
 * Returns the message as a view of the buffer, if the bytes from `start` to before `end` are exactly one
 * message that is not compressed and has at most `maxBytes`; else undefined.
 */
export function onlyMessage(
  buffer: Buffer,
  start: number,
  end: number,
  maxBytes: number,
): Uint8Array | undefined {
  const length = end - start - prefixBytes
  if (length < 0 || length > maxBytes) return undefined
  if (buffer[start] !== 0 || buffer.readUInt32BE(start + 1) !== length) return undefined
  return buffer.subarray(start + prefixBytes, end)
}

/**
 * Assembles messages from chunks, however they are divided. Pushed chunks are lent: a message that is taken
 * before `keep` is a view of its chunk. `keep` copies the rest to own memory, which short messages share.
 */
export class MessageReader {
  readonly #maxBytes: number
  readonly #compression: string
  /** The buffer that is read next, from `#start` to before `#end`: either own memory or a lent chunk. */
  #buffer: Buffer = noBuffer
  #start = 0
  #end = 0
  /** Lent chunks that follow the bytes of `#buffer`. */
  #behind: Buffer[] = []
  #behindBytes = 0
  #own: Buffer = noBuffer
  /** The number of used bytes in `#own`. */
  #ownEnd = 0

  /** @param compression the value of the request's grpc-encoding */
  constructor(maxBytes: number, compression: string) {
    this.#maxBytes = maxBytes
    this.#compression = compression
  }

  /** The number of pushed bytes that were not taken as messages. */
  get heldBytes(): number {
    return this.#end - this.#start + this.#behindBytes
  }

  /** The size of the own memory that holds bytes which were not taken; 0 if there are none. */
  get ownBytes(): number {
    return this.heldBytes === 0 ? 0 : this.#own.length
  }

  /** Whether some bytes that were not taken are still in lent chunks. */
  get lends(): boolean {
    return this.#behindBytes > 0 || (this.#end > this.#start && this.#buffer !== this.#own)
  }

  /** Adds a chunk. The caller must not change it before `keep`. */
  push(bytes: Buffer): void {
    if (this.heldBytes === 0) this.#setCurrent(bytes, 0, bytes.length)
    else {
      this.#behind.push(bytes)
      this.#behindBytes += bytes.length
    }
  }

  /** Copies the bytes that were not taken to own memory: lent chunks are not used any more. */
  keep(): void {
    this.#copyCurrent()
    for (const bytes of this.#behind) this.#copy(bytes)
    this.#behind = []
    this.#behindBytes = 0
  }

  /**
   * Returns the next message, decompressed, if it is complete; else undefined. The reader does not use the
   * message's memory again.
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
    if (this.#end - this.#start < prefixBytes) return undefined
    const flag = this.#buffer.readUInt8(this.#start)
    const length = this.#checkedLength(flag, this.#buffer.readUInt32BE(this.#start + 1))
    const end = this.#start + prefixBytes + length
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
   * Continues with the next lent chunk; returns false if there is none. The part of a message that is still
   * in `#buffer` is copied to own memory, and the chunk after it.
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

  /** Appends bytes to the end of own memory. */
  #copy(bytes: Buffer): void {
    if (this.#ownEnd + bytes.length > this.#own.length) this.#makeRoom(bytes.length)
    bytes.copy(this.#own, this.#ownEnd)
    this.#ownEnd += bytes.length
    this.#end = this.#ownEnd
  }

  /** Returns the size of the next message with its prefix; infinity if the prefix is not complete. */
  #nextBytes(): number {
    if (this.#end - this.#start < prefixBytes) return Number.POSITIVE_INFINITY
    return prefixBytes + this.#buffer.readUInt32BE(this.#start + 1)
  }

  /**
   * Allocates new own memory for `bytes` more. The old memory is not reused, since taken messages are views
   * of it.
   */
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

  /** Drops the bytes that were not taken. */
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
