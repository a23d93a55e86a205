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
 * The message, in the same memory, when what lies between `start` and `end` is exactly one that is not compressed and
 * not too long; else undefined.
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
 * Puts messages together, however the bytes are cut. What is taken before `keep` lies where it came; the rest is copied
 * there, so that whoever keeps a part of it keeps nothing else alive but what comes before and after it, and these
 * only while they are short.
 */
export class MessageReader {
  readonly #maxBytes: number
  readonly #compression: string
  /** What is looked at lies between `start` and `end` of this: of our own memory, or of lent bytes. */
  #buffer: Buffer = noBuffer
  #start = 0
  #end = 0
  /** Lent bytes that come behind it. */
  #behind: Buffer[] = []
  #behindBytes = 0
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
    return this.#end - this.#start + this.#behindBytes
  }

  /** How much memory of its own it has for these. */
  get ownBytes(): number {
    return this.heldBytes === 0 ? 0 : this.#own.length
  }

  /** Bytes that were pushed are still held where they came. */
  get lends(): boolean {
    return this.#behindBytes > 0 || (this.#end > this.#start && this.#buffer !== this.#own)
  }

  /** Takes bytes that are only lent until `keep`. */
  push(bytes: Buffer): void {
    if (this.heldBytes === 0) this.#look(bytes, 0, bytes.length)
    else {
      this.#behind.push(bytes)
      this.#behindBytes += bytes.length
    }
  }

  /** What was pushed and not taken goes into memory of its own. */
  keep(): void {
    this.#keepWhatIsLookedAt()
    for (const bytes of this.#behind) this.#copy(bytes)
    this.#behind = []
    this.#behindBytes = 0
  }

  /**
   * The next message when all of it is here. It is the caller's.
   *
   * @throws GrpcError as soon as its prefix says that it cannot be taken.
   */
  take(): Uint8Array | undefined {
    let message = this.#takeHere()
    while (message === undefined && this.#goOn()) message = this.#takeHere()
    if (this.heldBytes === 0 && this.#own.length > maxSharedBytes) this.#dropOwn()
    return message
  }

  #takeHere(): Uint8Array | undefined {
    if (this.#end - this.#start < prefixBytes) return undefined
    const length = this.#checkedLength(
      this.#buffer.readUInt8(this.#start),
      this.#buffer.readUInt32BE(this.#start + 1),
    )
    const end = this.#start + prefixBytes + length
    if (end > this.#end) return undefined
    this.#start = end
    return this.#buffer.subarray(end - length, end)
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

  #look(buffer: Buffer, start: number, end: number): void {
    this.#buffer = buffer
    this.#start = start
    this.#end = end
  }

  /** Looks at the next bytes too; a message that is spread over several is put together in our own memory. */
  #goOn(): boolean {
    const next = this.#behind.shift()
    if (next === undefined) return false
    this.#behindBytes -= next.length
    if (this.#start === this.#end) this.#look(next, 0, next.length)
    else {
      this.#keepWhatIsLookedAt()
      this.#copy(next)
    }
    return true
  }

  #keepWhatIsLookedAt(): void {
    if (this.#buffer === this.#own) return
    const held = this.#buffer.subarray(this.#start, this.#end)
    this.#look(this.#own, this.#ownEnd, this.#ownEnd)
    if (held.length > 0) this.#copy(held)
  }

  /** Puts bytes behind those of our own memory that are looked at. */
  #copy(bytes: Buffer): void {
    if (this.#ownEnd + bytes.length > this.#own.length) this.#makeRoom(bytes.length)
    bytes.copy(this.#own, this.#ownEnd)
    this.#ownEnd += bytes.length
    this.#end = this.#ownEnd
  }

  /** Of the next message, as far as its length is known. */
  #nextBytes(): number {
    if (this.#end - this.#start < prefixBytes) return Number.POSITIVE_INFINITY
    return prefixBytes + this.#buffer.readUInt32BE(this.#start + 1)
  }

  /** New memory each time: messages that were taken lie in the old one. */
  #makeRoom(bytes: number): void {
    const held = this.#end - this.#start
    const shared = Math.min(maxSharedBytes, 2 * this.#own.length)
    const grown = Math.max(held + bytes, Math.min(2 * (held + bytes), this.#nextBytes()))
    const larger = Buffer.allocUnsafeSlow(Math.max(minBufferBytes, shared, grown))
    this.#own.copy(larger, 0, this.#start, this.#end)
    this.#own = larger
    this.#ownEnd = held
    this.#look(larger, 0, held)
  }

  /** Forgets what was not taken. */
  clear(): void {
    this.#behind = []
    this.#behindBytes = 0
    this.#dropOwn()
  }

  #dropOwn(): void {
    this.#own = noBuffer
    this.#ownEnd = 0
    this.#look(noBuffer, 0, 0)
  }
}

const noBuffer = Buffer.alloc(0)
