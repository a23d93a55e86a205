/**
 * What the other side may still send us (RFC 9113, 5.2). What was taken is given back once it is used, and
 * told only when that is half of the window, so that small messages cost no frame of their own.
 */
export class ReceiveWindow {
  readonly #size: number
  #available: number
  #used = 0

  constructor(size: number) {
    this.#size = size
    this.#available = size
  }

  /** False when the other side sends more than it may. */
  take(bytes: number): boolean {
    this.#available -= bytes
    return this.#available >= 0
  }

  /** Returns by how much the window is to be widened by WINDOW_UPDATE now, 0 for not yet. */
  giveBack(bytes: number): number {
    this.#used += bytes
    if (this.#used < this.#size / 2) return 0
    const increment = this.#used
    this.#available += increment
    this.#used = 0
    return increment
  }
}

/** Bytes that wait for the windows to open: chunks in order, of which parts are taken. */
export class SendQueue {
  #chunks: Uint8Array[] = []
  #offset = 0
  bytes = 0

  /** The chunk must not change until it is moved. */
  push(chunk: Uint8Array): void {
    this.#chunks.push(chunk)
    this.bytes += chunk.length
  }

  /** Moves that many bytes, of which there must be enough, to the target. */
  moveTo(target: Uint8Array, offset: number, bytes: number): void {
    let moved = 0
    while (moved < bytes) {
      const chunk = this.#chunks[0]
      if (chunk === undefined) throw new Error('the queue holds less than it says')
      const part = Math.min(chunk.length - this.#offset, bytes - moved)
      const whole = part === chunk.length
      target.set(whole ? chunk : chunk.subarray(this.#offset, this.#offset + part), offset + moved)
      moved += part
      this.#offset += part
      if (this.#offset === chunk.length) {
        this.#chunks.shift()
        this.#offset = 0
      }
    }
    this.bytes -= bytes
  }

  clear(): void {
    this.#chunks = []
    this.#offset = 0
    this.bytes = 0
  }
}
