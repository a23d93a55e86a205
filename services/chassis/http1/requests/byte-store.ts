const minStoreBytes = 256

/**
 * An append-only buffer. It grows by doubling, into new memory: returned buffers are never written to again,
 * and the memory is never more than twice the added bytes.
 */
export class ByteStore {
  bytes: Buffer = Buffer.alloc(0)
  length = 0

  add(source: Buffer, from: number, to: number): void {
    const length = this.length + to - from
    if (length > this.bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(minStoreBytes, 2 * length))
      this.bytes.copy(larger, 0, 0, this.length)
      this.bytes = larger
    }
    source.copy(this.bytes, this.length, from, to)
    this.length = length
  }

  /** Returns the added bytes; the store is then empty, with new memory. */
  take(): Buffer {
    const taken = this.bytes.subarray(0, this.length)
    this.bytes = Buffer.alloc(0)
    this.length = 0
    return taken
  }
}
