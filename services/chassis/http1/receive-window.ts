const nothing = Buffer.alloc(0)
const minStoreBytes = 256

/**
 * What was received and not read yet: the octets from `at` to `end`. Mostly that is the chunk that came,
 * where it lies; only with a rest before it is it copied, to the end of memory of our own. Either is never
 * written to again where something was received, so whoever keeps a view of it may.
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

  /** How much memory it keeps. */
  get heldBytes(): number {
    return this.bytes.length
  }

  clear(): void {
    this.at = this.end
    this.releaseRead()
  }

  /** An idle connection holds no memory for what it has received. */
  releaseRead(): void {
    if (this.at !== this.end) return
    this.bytes = nothing
    this.at = 0
    this.end = 0
  }
}
