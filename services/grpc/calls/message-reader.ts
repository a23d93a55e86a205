import { GrpcError } from '../status.ts'
import { decompress, isSupported } from './compression.ts'

/** The size of a message's prefix: a flag and four bytes of length. */
export const prefixBytes = 5
/** The memory for an incomplete message is at most twice the received bytes, and at least this. */
const minBufferBytes = 1024
/**
 * A continuing stream gets buffers for several messages, each twice as large as the previous one, up to this
 * size: allocating a buffer costs more than filling it.
 */
const maxSharedBytes = 16 * 1024

/**
 * Returns the message, in the same memory, if the bytes between `start` and `end` are exactly one that is not
 * compressed and not too long; else undefined.
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
 * Assembles messages from any split of the bytes. Messages that are taken before `keep` are not copied. `keep`
 * copies the rest to memory that short messages share.
 */
export class MessageReader {
  readonly #maxBytes: number
  readonly #compression: string
  /** The current bytes are between `start` and `end` of this buffer: own memory, or lent bytes. */
  #buffer: Buffer = noBuffer
  #start = 0
  #end = 0
  /** Lent bytes that follow the current ones. */
  #behind: Buffer[] = []
  #behindBytes = 0
  #own: Buffer = noBuffer
  /** The used length of the own memory. */
  #ownEnd = 0

  /** @param compression the grpc-encoding of the request */
  constructor(maxBytes: number, compression: string) {
    this.#maxBytes = maxBytes
    this.#compression = compression
  }

  /** The number of bytes that were not taken. */
  get heldBytes(): number {
    return this.#end - this.#start + this.#behindBytes
  }

  /** The size of the own memory for these. */
  get ownBytes(): number {
    return this.heldBytes === 0 ? 0 : this.#own.length
  }

  /** Whether pushed bytes are still referenced where they were received. */
  get lends(): boolean {
    return this.#behindBytes > 0 || (this.#end > this.#start && this.#buffer !== this.#own)
  }

  /** Adds bytes that are lent until `keep`. */
  push(bytes: Buffer): void {
    if (this.heldBytes === 0) this.#setCurrent(bytes, 0, bytes.length)
    else {
      this.#behind.push(bytes)
      this.#behindBytes += bytes.length
    }
  }

  /** Copies the bytes that were not taken to own memory. */
  keep(): void {
    this.#copyCurrent()
    for (const bytes of this.#behind) this.#copy(bytes)
    this.#behind = []
    this.#behindBytes = 0
  }

  /**
   * Returns the next message, decompressed, if it is complete. It belongs to the caller.
   *
   * @throws GrpcError as soon as its prefix shows that it is invalid, or if it cannot be decompressed
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

  /** Continues with the next bytes; a message that spans several buffers is assembled in own memory. */
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

  /** Appends bytes to the current ones in own memory. */
  #copy(bytes: Buffer): void {
    if (this.#ownEnd + bytes.length > this.#own.length) this.#makeRoom(bytes.length)
    bytes.copy(this.#own, this.#ownEnd)
    this.#ownEnd += bytes.length
    this.#end = this.#ownEnd
  }

  /** Returns the size of the next message, as far as it is known. */
  #nextBytes(): number {
    if (this.#end - this.#start < prefixBytes) return Number.POSITIVE_INFINITY
    return prefixBytes + this.#buffer.readUInt32BE(this.#start + 1)
  }

  /** Allocates new memory each time: taken messages are in the old one. */
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
