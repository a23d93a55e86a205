import type { Duplex } from 'node:stream'
import { atTurnEnd } from '../calls/at-turn-end.ts'

/**
 * The size of one write, and of the buffer for it: room for all messages of a chunk that a producer's socket
 * yields at once. A smaller size made a relay of such messages copy half of them a second time.
 */
const largeBytes = 64 * 1024
/** Enough for a turn of most connections, so that many that write at once need little memory. */
const smallBytes = 4 * 1024
/**
 * Answers that are complete while the peer is still being read are sent in parts of at least this size, some
 * fifty decisions: the peer works on the first ones while this process reads on. A peer with 100 calls in
 * flight is 1.4 times as fast with it.
 */
const partBytes = 2048
/**
 * The connection stops reading from a peer with more unsent bytes until the peer reads: further requests
 * would only create more answers.
 */
const maxUnsentBytes = 1024 * 1024
/** Unused buffers are kept for other connections, so that idle connections have none. */
const spareLarge: Buffer[] = []
const maxSpareLarge = 64
const spareSmall: Buffer[] = []
const maxSpareSmall = 1024

const noBuffer = Buffer.alloc(0)

/**
 * The output of a connection, gathered into few writes for each turn of the event loop. Bytes that the kernel
 * did not take at once belong to the socket: new frames are then written after them, or into another buffer.
 */
export class Output {
  readonly #socket: Duplex
  readonly #onRoom: () => void
  /** Written by the callers of `reserve`. */
  target: Buffer = noBuffer
  /** The bytes between these were added and not written yet. */
  #start = 0
  #end = 0
  #held = false
  #scheduled = false
  #congested = false
  #closed = false

  /** `onRoom` is called after each write after which more may be sent; until then `room` may be 0. */
  constructor(socket: Duplex, onRoom: () => void) {
    this.#socket = socket
    this.#onRoom = onRoom
    socket.on('drain', () => {
      this.#congested = false
      // A TLS socket takes no write at once. Without this, each write of a large message took a new buffer.
      this.#reuseBuffer(this.#start === this.#end && socket.writableLength === 0)
      socket.resume()
      onRoom()
    })
  }

  /** The size of DATA that may be added. Other frames may always be added: each stream has few of them. */
  get room(): number {
    return this.#congested ? 0 : largeBytes - (this.#end - this.#start)
  }

  /**
   * Returns the offset in `target` at which the caller must write `bytes` bytes, at most `largeBytes`, at
   * once.
   */
  reserve(bytes: number): number {
    if (this.#end - this.#start + bytes > largeBytes) this.#write()
    if (this.#end + bytes > this.target.length) this.#takeBuffer(bytes)
    const offset = this.#end
    this.#end += bytes
    if (!this.#held && !this.#scheduled) {
      this.#scheduled = true
      writeInTurn(this)
    }
    return offset
  }

  append(bytes: Uint8Array): void {
    const offset = this.reserve(bytes.length)
    this.target.set(bytes, offset)
  }

  /** Delays the writing of added bytes until `release`, or `writePart`. */
  hold(): void {
    this.#held = true
  }

  /** Writes the added bytes if there are enough, after an answer that others may follow in this turn. */
  writePart(): void {
    if (!this.#congested && this.#end - this.#start >= partBytes) this.flush()
  }

  release(): void {
    this.#held = false
    this.flush()
  }

  /** Writes all added bytes, and calls `onRoom` if there is room. */
  flush(): void {
    this.#scheduled = false
    if (this.#end === this.#start) return
    this.#write()
    if (!this.#congested && !this.#closed) this.#onRoom()
  }

  /** Later bytes are discarded. */
  close(): void {
    this.#closed = true
  }

  #write(): void {
    const socket = this.#socket
    const bytes = this.target.subarray(this.#start, this.#end)
    this.#start = this.#end
    if (!this.#closed && socket.writable && bytes.length > 0) {
      // A write of the socket's high-water mark returns false even if the kernel has taken it.
      this.#congested = !socket.write(bytes) && socket.writableLength > 0
      if (socket.writableLength > maxUnsentBytes) socket.pause()
    }
    this.#reuseBuffer(socket.writableLength === 0)
  }

  /**
   * Takes a buffer for the unwritten bytes and `bytes` more; the previous one belongs to the socket, or is
   * free.
   */
  #takeBuffer(bytes: number): void {
    const before = this.target
    const added = this.#end - this.#start
    const small = added + bytes <= smallBytes
    this.target = small
      ? (spareSmall.pop() ?? Buffer.allocUnsafeSlow(smallBytes))
      : (spareLarge.pop() ?? Buffer.allocUnsafeSlow(largeBytes))
    before.copy(this.target, 0, this.#start, this.#end)
    if (this.#start === 0) keepSpare(before)
    this.#start = 0
    this.#end = added
  }

  /** The buffer is free if the socket has no bytes left; a destroyed socket may still have some. */
  #reuseBuffer(allTaken: boolean): void {
    if (!allTaken) return
    if (!this.#socket.destroyed) keepSpare(this.target)
    this.target = noBuffer
    this.#start = 0
    this.#end = 0
  }
}

const writeInTurn = atTurnEnd<Output>(output => output.flush())

function keepSpare(buffer: Buffer): void {
  if (buffer.length === largeBytes && spareLarge.length < maxSpareLarge) spareLarge.push(buffer)
  if (buffer.length === smallBytes && spareSmall.length < maxSpareSmall) spareSmall.push(buffer)
}
