import type { Duplex } from 'node:stream'

const bufferBytes = 64 * 1024
/** What is gathered for one write: room for a frame of the largest size, and for the answers of a turn. */
const writeBytes = bufferBytes / 2
/** Beyond this the peer is not read any more until it reads: what it sends would only make more answers. */
const maxUnsentBytes = 1024 * 1024
/** Buffers that no connection uses are kept for the next, so that idle connections have none. */
const maxSpareBuffers = 64
const spareBuffers: Buffer[] = []

/**
 * What a connection sends, gathered into one write for each turn of the event loop. What the kernel did not
 * take at once stays the socket's: new frames are then written behind it, or into another buffer.
 */
export class Output {
  readonly #socket: Duplex
  readonly #onRoom: () => void
  #buffer: Buffer | undefined
  /** What is between these was added and not written yet. */
  #start = 0
  #end = 0
  #held = false
  #scheduled: NodeJS.Immediate | undefined
  #congested = false
  #closed = false

  /** `onRoom` is told after each write that more may be sent; until then `hasRoom` may be false. */
  constructor(socket: Duplex, onRoom: () => void) {
    this.#socket = socket
    this.#onRoom = onRoom
    socket.on('drain', () => {
      this.#congested = false
      socket.resume()
      onRoom()
    })
  }

  /** Whether DATA of that size may be added. Other frames may always: they are few for each stream. */
  hasRoom(bytes: number): boolean {
    return !this.#congested && this.#end - this.#start + bytes <= writeBytes
  }

  /** The offset in `target` at which the caller writes that many bytes, at most `writeBytes`, at once. */
  reserve(bytes: number): number {
    if (this.#end - this.#start + bytes > writeBytes) this.#write()
    const offset = this.#end
    this.#end += bytes
    if (!this.#held && this.#scheduled === undefined) this.#scheduled = setImmediate(this.#writeInTurn)
    return offset
  }

  get target(): Buffer {
    this.#buffer ??= spareBuffers.pop() ?? Buffer.allocUnsafeSlow(bufferBytes)
    return this.#buffer
  }

  append(bytes: Uint8Array): void {
    const offset = this.reserve(bytes.length)
    this.target.set(bytes, offset)
  }

  /** Whatever is added until `release` goes out in one write. */
  hold(): void {
    this.#held = true
  }

  release(): void {
    this.#held = false
    this.flush()
  }

  /** Writes all that was added; then there may be room for what waits. */
  flush(): void {
    if (this.#end === this.#start) return
    this.#write()
    if (!this.#congested && !this.#closed) this.#onRoom()
  }

  /** What is added from now on goes nowhere. */
  close(): void {
    this.#closed = true
    clearImmediate(this.#scheduled)
  }

  readonly #writeInTurn = (): void => {
    this.#scheduled = undefined
    this.flush()
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

  /** With nothing left in the socket the buffer is free; a socket that was destroyed may still have some. */
  #reuseBuffer(allTaken: boolean): void {
    if (!allTaken && this.#end <= bufferBytes - writeBytes) return
    if (allTaken && this.#buffer && !this.#socket.destroyed && spareBuffers.length < maxSpareBuffers) {
      spareBuffers.push(this.#buffer)
    }
    this.#buffer = undefined
    this.#start = 0
    this.#end = 0
  }
}
