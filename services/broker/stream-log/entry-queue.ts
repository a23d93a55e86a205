import { type LogEntry, logEntryOverheadBytes } from './stream-log.ts'

const initialSlots = 16
const initialBytes = 4 * 1024
/**
 * When the queue starts again at the beginning of its memory, the memory is halved if at most this share is
 * in use.
 */
const sparseShare = 1 / 4
/** A larger sealed queue is copied only if half of its memory is unused. */
const maxCopiedBytes = 64 * 1024

/** How many numbers the array has for each entry, whose bytes are elsewhere. */
const fieldsPerEntry = 4
const offsetField = 0
const lengthField = 1
const receivedField = 2
/**
 * The index of the bytes of all entries before this one: with it, the bytes from any position on are known
 * without counting.
 */
const bytesBeforeField = 3

/**
 * The entries of a ring without the header: a range of positions from 1 on, in a circular array that grows on
 * demand.
 *
 * Entries live for seconds, which is expensive for objects: the garbage collector copies each of them twice,
 * and then marks it repeatedly. So an entry is a few numbers, and its bytes are copied into memory that
 * dropped entries have released. With 1,000 streams of 30 messages a second, this avoids collections of a
 * hundred milliseconds in each second.
 */
export class EntryQueue {
  /** The array has room for this many entries. An entry is at the index `position % #slots`. */
  #slots = initialSlots
  #numbers = new Float64Array(initialSlots * fieldsPerEntry)
  #memory = Buffer.allocUnsafeSlow(0)
  /** The newest entry, cached because usually all cursors read it at once. */
  #newest: LogEntry | undefined
  #first = 1
  #end = 1
  #bytesPushed = 0
  #bytesDropped = 0

  /** The position of the oldest entry; `end` if there is none. */
  get first(): number {
    return this.#first
  }

  /** The position behind the newest entry. */
  get end(): number {
    return this.#end
  }

  /** The bytes of all entries, with `logEntryOverheadBytes` for each. */
  get bytes(): number {
    return this.#bytesPushed - this.#bytesDropped
  }

  /** Returns the entry; undefined before `first` and from `end` on. */
  at(position: number): LogEntry | undefined {
    if (position === this.#newest?.position) return this.#newest
    if (position < this.#first || position >= this.#end) return undefined
    return { position, bytes: this.#bytesAt(position), receivedMs: this.receivedMs(position) }
  }

  /** Returns when the entry, which must exist, was received. */
  receivedMs(position: number): number {
    return this.#number(position, receivedField)
  }

  /** Adds an entry, and copies its bytes. */
  push(bytes: Uint8Array, receivedMs: number): void {
    if (this.#end - this.#first === this.#slots) this.#resize(2 * this.#slots)
    const position = this.#end
    const offset = this.#findRoom(bytes.length)
    this.#memory.set(bytes, offset)
    const at = (position % this.#slots) * fieldsPerEntry
    this.#numbers[at + offsetField] = offset
    this.#numbers[at + lengthField] = bytes.length
    this.#numbers[at + receivedField] = receivedMs
    this.#numbers[at + bytesBeforeField] = this.#bytesPushed
    this.#newest = { position, bytes: this.#memory.subarray(offset, offset + bytes.length), receivedMs }
    this.#end += 1
    this.#bytesPushed += bytes.length + logEntryOverheadBytes
  }

  dropOldest(): void {
    if (this.#first === this.#end) return
    this.#bytesDropped += this.#number(this.#first, lengthField) + logEntryOverheadBytes
    this.#first += 1
    if (this.#first === this.#end) this.#newest = undefined
  }

  /** Drops all entries. The next entry gets this position. */
  restartAt(position: number): void {
    this.#newest = undefined
    this.#first = position
    this.#end = position
    this.#bytesDropped = this.#bytesPushed
  }

  /** Releases the unused memory of a queue that gets no more entries. */
  seal(): void {
    if (this.bytes > maxCopiedBytes && this.#memory.length < 2 * this.bytes) return
    this.#moveTo(this.#messageBytes())
    this.#resize(Math.max(1, this.#end - this.#first))
  }

  /** Returns the bytes from this position on, counted as in `bytes`. */
  bytesFrom(position: number): number {
    if (position >= this.#end) return 0
    return this.#bytesPushed - this.#number(Math.max(position, this.#first), bytesBeforeField)
  }

  #number(position: number, which: number): number {
    return this.#numbers[(position % this.#slots) * fieldsPerEntry + which] ?? 0
  }

  #bytesAt(position: number): Uint8Array {
    const offset = this.#number(position, offsetField)
    return this.#memory.subarray(offset, offset + this.#number(position, lengthField))
  }

  #messageBytes(): number {
    return this.bytes - (this.#end - this.#first) * logEntryOverheadBytes
  }

  /**
   * Returns an offset with room: behind the newest entry, or at the beginning of the memory. Entries at the
   * beginning end before the oldest entry, with a free byte between: it shows that they have wrapped around.
   */
  #findRoom(bytes: number): number {
    if (this.#first === this.#end) return bytes <= this.#memory.length ? 0 : this.#grow(bytes)
    const oldest = this.#number(this.#first, offsetField)
    const newest = this.#number(this.#end - 1, offsetField)
    const behind = newest + this.#number(this.#end - 1, lengthField)
    if (newest < oldest) return behind + bytes < oldest ? behind : this.#grow(bytes)
    if (behind + bytes <= this.#memory.length) return behind
    if (this.#isSparse(bytes)) return this.#moveTo(this.#memory.length / 2)
    return bytes < oldest ? 0 : this.#grow(bytes)
  }

  #isSparse(bytes: number): boolean {
    const { length } = this.#memory
    return length > initialBytes && this.#messageBytes() + bytes <= length * sparseShare
  }

  #grow(bytes: number): number {
    return this.#moveTo(Math.max(initialBytes, 2 * this.#memory.length, 2 * (this.#messageBytes() + bytes)))
  }

  /** Returns the offset behind the moved entries. */
  #moveTo(memoryBytes: number): number {
    const memory = Buffer.allocUnsafeSlow(memoryBytes)
    let end = 0
    for (let position = this.#first; position < this.#end; position += 1) {
      const bytes = this.#bytesAt(position)
      memory.set(bytes, end)
      this.#numbers[(position % this.#slots) * fieldsPerEntry + offsetField] = end
      end += bytes.length
    }
    this.#memory = memory
    this.#newest = undefined
    return end
  }

  #resize(slots: number): void {
    const numbers = new Float64Array(slots * fieldsPerEntry)
    for (let position = this.#first; position < this.#end; position += 1) {
      const from = (position % this.#slots) * fieldsPerEntry
      numbers.set(this.#numbers.subarray(from, from + fieldsPerEntry), (position % slots) * fieldsPerEntry)
    }
    this.#slots = slots
    this.#numbers = numbers
  }
}
