import type { Duplex } from 'node:stream'
import { atTurnEnd } from '../at-turn-end.ts'

const largeBytes = 64 * 1024
/**
 * Enough for a turn of most connections: many that write at once need no more memory than what they write.
 */
const smallBytes = 4 * 1024
/** What is gathered for one write: room for a frame of the largest size, and for the answers of a turn. */
const writeBytes = largeBytes / 2
/**
 * Answers that are there while the peer is still being read go in parts of at least this size, some fifty decisions: the
 * peer works on the first of them while we read on. One that has 100 calls in flight is 1.4 times as fast by that.
 */
const partBytes = 2048
/** Beyond this the peer is not read any more until it reads: what it sends would only make more answers. */
const maxUnsentBytes = 1024 * 1024
/** Buffers that no connection uses are kept for the next, so that idle connections have none. */
const spareLarge: Buffer[] = []
const maxSpareLarge = 64
const spareSmall: Buffer[] = []
const maxSpareSmall = 1024

const noBuffer = Buffer.alloc(0)

/**
 * What a connection sends, gathered into few writes for each turn of the event loop. What the kernel did not
 * take at once stays the socket's: new frames are then written behind it, or into another buffer.
 */
export class Output {
  readonly #socket: Duplex
  readonly #onRoom: () => void
  /** Written by whoever has reserved a part of it. */
  target: Buffer = noBuffer
  /** What is between these was added and not written yet. */
  #start = 0
  #end = 0
  #held = false
  #scheduled = false
  #congested = false
  #closed = false

  /** `onRoom` is told after each write that more may be sent; until then there may be no `room`. */
  constructor(socket: Duplex, onRoom: () => void) {
    this.#socket = socket
    this.#onRoom = onRoom
    socket.on('drain', () => {
      this.#congested = false
      socket.resume()
      onRoom()
    })
  }

  /**
   * How much DATA may be added to what is gathered. Other frames may always: they are few for each stream.
   */
  get room(): number {
    return this.#congested ? 0 : writeBytes - (this.#end - this.#start)
  }

  /** The offset in `target` at which the caller writes that many bytes, at most `writeBytes`, at once. */
  reserve(bytes: number): number {
    if (this.#end - this.#start + bytes > writeBytes) this.#write()
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

  /** Whatever is added until `release` goes out then, or with `writePart`. */
  hold(): void {
    this.#held = true
  }

  /** After an answer, while more may follow in this turn: what was added goes out if it is worth a write. */
  writePart(): void {
    if (!this.#congested && this.#end - this.#start >= partBytes) this.flush()
  }

  release(): void {
    this.#held = false
    this.flush()
  }

  /** Writes all that was added; then there may be room for what waits. */
  flush(): void {
    this.#scheduled = false
    if (this.#end === this.#start) return
    this.#write()
    if (!this.#congested && !this.#closed) this.#onRoom()
  }

  /** What is added from now on goes nowhere. */
  close(): void {
    this.#closed = true
  }

  #write(): void {
    const socket = this.#socket
    const bytes = this.target.subarray(this.#start, this.#end)
    this.#start = this.#end
    if (!this.#closed && socket.writable && bytes.length > 0) {
      this.#congested = !socket.write(bytes)
      if (socket.writableLength > maxUnsentBytes) socket.pause()
    }
    this.#reuseBuffer(socket.writableLength === 0)
  }

  /**
   * Takes a buffer for what was added and is to be added; the one before belongs to the socket, or is free.
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

  /** With nothing left in the socket the buffer is free; a socket that was destroyed may still have some. */
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
