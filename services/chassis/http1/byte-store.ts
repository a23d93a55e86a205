const minStoreBytes = 256

/**
 * Memory to which octets are added at the end. It grows by doubling, into new memory: what was handed out is
 * never written to again, and what is held is never more than twice what was added.
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

  /** What was added; the store is then empty, with new memory. */
  take(): Buffer {
    const taken = this.bytes.subarray(0, this.length)
    this.bytes = Buffer.alloc(0)
    this.length = 0
    return taken
  }
}
