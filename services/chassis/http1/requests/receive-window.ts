const nothing = Buffer.alloc(0)
const minStoreBytes = 256

/**
 * The received octets that were not parsed yet: from `at` to `end`. Usually that is the received chunk
 * itself; only with a rest before it is the chunk copied, to the end of a separate buffer. Neither is
 * overwritten where octets were received, so views of them may be kept.
 */
export class ReceiveWindow {
  bytes: Buffer = nothing
  at = 0
  end = 0
  #owned = false

  push(chunk: Buffer): void {
    const rest = this.end - this.at
    if (rest === 0) {
      this.bytes = chunk
      this.at = 0
      this.end = chunk.length
      this.#owned = false
      return
    }
    if (!this.#owned || this.end + chunk.length > this.bytes.length) {
      const store = Buffer.allocUnsafeSlow(Math.max(minStoreBytes, 2 * (rest + chunk.length)))
      this.bytes.copy(store, 0, this.at, this.end)
      this.bytes = store
      this.at = 0
      this.end = rest
      this.#owned = true
    }
    chunk.copy(this.bytes, this.end)
    this.end += chunk.length
  }

  /** The memory that it keeps, in bytes. */
  get heldBytes(): number {
    return this.bytes.length
  }

  clear(): void {
    this.at = this.end
    this.releaseRead()
  }

  /** Frees the memory of an idle connection. */
  releaseRead(): void {
    if (this.at !== this.end) return
    this.bytes = nothing
    this.at = 0
    this.end = 0
  }
}
