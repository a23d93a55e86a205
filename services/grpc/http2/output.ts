import type { Duplex } from 'node:stream'
import { atTurnEnd } from '../calls/at-turn-end.ts'

/**
 * The largest write, and the size of a large buffer. All messages that arrive from a producer in one chunk
 * fit; with a smaller buffer, a relay copied half of them twice.
 */
const largeBytes = 64 * 1024
/**
 * The size of a small buffer. Most connections need no more in one turn of the event loop, so that many can
 * write at once with little memory.
 */
const smallBytes = 4 * 1024
/**
 * While a chunk is being read, complete answers are written as soon as they have this many bytes, about fifty
 * rate limit decisions: the peer can process them meanwhile. That makes a peer with 100 calls in flight 1.4
 * times as fast.
 */
const partBytes = 2048
/**
 * While more bytes than this wait for the peer, nothing is read from it: requests would only create more
 * answers.
 */
const maxUnsentBytes = 1024 * 1024
/** Free buffers, which all connections share, so that an idle connection holds none. */
const spareLarge: Buffer[] = []
const maxSpareLarge = 64
const spareSmall: Buffer[] = []
const maxSpareSmall = 1024

const noBuffer = Buffer.alloc(0)

/**
 * Gathers the output of a connection into few writes for each turn of the event loop. Bytes that the kernel
 * has not taken belong to the socket: new frames go after them, or into another buffer.
 */
export class Output {
  readonly #socket: Duplex
  readonly #onRoom: () => void
  /** The buffer to which callers of `reserve` write. */
  target: Buffer = noBuffer
  /** The bytes from `#start` to before `#end` were added and not written yet. */
  #start = 0
  #end = 0
  #held = false
  #scheduled = false
  #congested = false
  #closed = false

  /** @param onRoom called when `room` may have grown: after a write, or when the socket has drained */
  constructor(socket: Duplex, onRoom: () => void) {
    this.#socket = socket
    this.#onRoom = onRoom
    socket.on('drain', () => {
      this.#congested = false
      // A TLS socket never takes a write at once: each write of a large message would take a new buffer.
      this.#reuseBuffer(this.#start === this.#end && socket.writableLength === 0)
      socket.resume()
      onRoom()
    })
  }

  /**
   * The room for DATA frames; 0 while the socket is congested. Other frames may always be added, since each
   * stream has few.
   */
  get room(): number {
    return this.#congested ? 0 : largeBytes - (this.#end - this.#start)
  }

  /**
   * Reserves `bytes`, at most `largeBytes`. Returns their offset in `target`; the caller fills them before it
   * calls anything else.
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

  /** Keeps added bytes until `release` or `writePart`. */
  hold(): void {
    this.#held = true
  }

  /**
   * To be called after each answer while more answers may follow in this turn: writes if there are at least
   * `partBytes`.
   */
  writePart(): void {
    if (!this.#congested && this.#end - this.#start >= partBytes) this.flush()
  }

  release(): void {
    this.#held = false
    this.flush()
  }

  /** Writes the added bytes. Calls `onRoom` if more may be added. */
  flush(): void {
    this.#scheduled = false
    if (this.#end === this.#start) return
    this.#write()
    if (!this.#congested && !this.#closed) this.#onRoom()
  }

  /** Discards bytes that are added later. */
  close(): void {
    this.#closed = true
  }

  #write(): void {
    const socket = this.#socket
    const bytes = this.target.subarray(this.#start, this.#end)
    this.#start = this.#end
    if (!this.#closed && socket.writable && bytes.length > 0) {
      // `write` also returns false for a large write that the kernel has taken.
      this.#congested = !socket.write(bytes) && socket.writableLength > 0
      if (socket.writableLength > maxUnsentBytes) socket.pause()
    }
    this.#reuseBuffer(socket.writableLength === 0)
  }

  /**
   * Takes a buffer for the unwritten bytes and `bytes` more. The previous one is free unless the socket may
   * still use it.
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

  /**
   * Frees a buffer that the socket has taken. A destroyed socket may still use its buffer, so that is not
   * freed.
   */
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
