/**
 * The bytes that the peer may still send (RFC 9113, 5.2). Used bytes are given back only when they are half
 * of the window: otherwise each small message would cause a frame.
 */
export class ReceiveWindow {
  readonly #size: number
  #available: number
  #used = 0

  constructor(size: number) {
    this.#size = size
    this.#available = size
  }

  /** Returns false when the peer has exceeded the window. */
  take(bytes: number): boolean {
    this.#available -= bytes
    return this.#available >= 0
  }

  /** Returns the increment of the WINDOW_UPDATE to send now; 0 for none. */
  giveBack(bytes: number): number {
    this.#used += bytes
    if (this.#used < this.#size / 2) return 0
    const increment = this.#used
    this.#available += increment
    this.#used = 0
    return increment
  }
}

/** Chunks in order, which wait for an open window. They may be consumed in parts. */
export class SendQueue {
  #chunks: Uint8Array[] = []
  #offset = 0
  bytes = 0

  /** The caller must not change the chunk until `moveTo` has consumed it. */
  push(chunk: Uint8Array): void {
    this.#chunks.push(chunk)
    this.bytes += chunk.length
  }

  /** Moves queued bytes to the target. At least `bytes` must be queued. */
  moveTo(target: Uint8Array, offset: number, bytes: number): void {
    let moved = 0
    while (moved < bytes) {
      const chunk = this.#chunks[0]
      if (chunk === undefined) throw new Error('the queue has fewer bytes than its count')
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
