import type { Ring } from '../../ring.ts'

/**
 * Redis stores at most this share more than the ring, or this number of bytes, so that not every command
 * trims.
 */
const trimShare = 1 / 16
const minTrimBytes = 2 * 1024

/**
 * The sizes of the entries that Redis stores. They are dropped after the ring has dropped them, when this is
 * worth a command.
 */
export class StoredEntries {
  readonly #ring: Ring
  /** The sizes by position, oldest first. */
  readonly #sizes: number[] = []
  #first: number
  #bytes: number

  /** @param ring whose entries Redis stores */
  constructor(ring: Ring) {
    this.#ring = ring
    this.#first = ring.firstPosition
    this.#bytes = ring.bytes
    for (let position = this.#first; position < ring.nextPosition; position += 1) {
      this.#sizes.push(ring.bytesFrom(position) - ring.bytesFrom(position + 1))
    }
  }

  get bytes(): number {
    return this.#bytes
  }

  add(bytes: number): void {
    this.#sizes.push(bytes)
    this.#bytes += bytes
  }

  dropBelow(position: number): void {
    for (; this.#first < position && this.#sizes.length > 0; this.#first += 1) {
      this.#bytes -= this.#sizes.shift() ?? 0
    }
  }

  /** @param queuedBytes of the entries that the ring may have and Redis has not acknowledged */
  isTrimDue(queuedBytes: number): boolean {
    const ring = this.#ring
    if (ring.firstPosition <= this.#first) return false
    const droppedBytes = Math.min(this.#bytes, this.#bytes + queuedBytes - ring.bytes)
    return droppedBytes > Math.max(minTrimBytes, ring.bytes * trimShare)
  }
}
