import { type Entry, entryOverheadBytes } from './stream-log.ts'

const initialCapacity = 16
/** Beyond it, what a sealed queue would save is little beside what it keeps. */
const maxCopiedBytes = 64 * 1024

/** What came before an entry, so that the bytes behind any position are known without counting. */
interface CountedEntry extends Entry {
  readonly bytesBefore: number
}

type Slots = (CountedEntry | undefined)[]

/**
 * The entries of a ring without its header: a range of positions, in a circular array that grows at need. The first
 * entry of an empty queue has the position 1: the header's is 0.
 */
export class EntryQueue {
  /** The entry at a position lies at the position modulo the length. */
  #slots: Slots = emptySlots(initialCapacity)
  #first = 1
  #end = 1
  #bytesPushed = 0
  #bytesDropped = 0

  /** The position of the oldest entry; `end` when there is none. */
  get first(): number {
    return this.#first
  }

  /** The position behind the newest. */
  get end(): number {
    return this.#end
  }

  /** Of all entries, each with `entryOverheadBytes`. */
  get bytes(): number {
    return this.#bytesPushed - this.#bytesDropped
  }

  /** The entry at a position from `first` to before `end`. */
  at(position: number): Entry | undefined {
    return this.#slots[position % this.#slots.length]
  }

  push(bytes: Uint8Array, receivedMs: number): void {
    if (this.#end - this.#first === this.#slots.length) this.#grow()
    const entry = { position: this.#end, bytes, receivedMs, bytesBefore: this.#bytesPushed }
    this.#slots[this.#end % this.#slots.length] = entry
    this.#end += 1
    this.#bytesPushed += sizeOf(entry)
  }

  dropOldest(): void {
    const slot = this.#first % this.#slots.length
    const oldest = this.#slots[slot]
    if (oldest === undefined) return
    this.#slots[slot] = undefined
    this.#first += 1
    this.#bytesDropped += sizeOf(oldest)
  }

  /** Drops all; the next entry has this position. */
  restartAt(position: number): void {
    this.#slots = emptySlots(initialCapacity)
    this.#first = position
    this.#end = position
    this.#bytesDropped = this.#bytesPushed
  }

  /**
   * Nothing more will be pushed: few bytes are kept without what else lies in their memory, and no slots that are
   * not used.
   */
  seal(): void {
    if (this.bytes > maxCopiedBytes) return
    const entries = copyTogether(this.#kept())
    this.#slots = emptySlots(Math.max(1, entries.length))
    for (const entry of entries) this.#slots[entry.position % this.#slots.length] = entry
  }

  /** Of the entries from this position on. */
  bytesFrom(position: number): number {
    if (position >= this.#end) return 0
    const from = this.#slots[Math.max(position, this.#first) % this.#slots.length]
    return this.#bytesPushed - (from?.bytesBefore ?? this.#bytesPushed)
  }

  #grow(): void {
    const larger = emptySlots(2 * this.#slots.length)
    for (const entry of this.#kept()) larger[entry.position % larger.length] = entry
    this.#slots = larger
  }

  /** In the order of their positions. */
  #kept(): CountedEntry[] {
    const entries: CountedEntry[] = []
    for (let position = this.#first; position < this.#end; position += 1) {
      const entry = this.#slots[position % this.#slots.length]
      if (entry !== undefined) entries.push(entry)
    }
    return entries
  }
}

const emptySlots = (length: number): Slots => new Array(length).fill(undefined)
const sizeOf = (entry: Entry) => entry.bytes.length + entryOverheadBytes

/**
 * Messages are parts of pieces of memory that may be much larger, and that live as long as any part is
 * kept.
 */
function copyTogether(entries: readonly CountedEntry[]): CountedEntry[] {
  const memory = Buffer.allocUnsafeSlow(entries.reduce((sum, { bytes }) => sum + bytes.length, 0))
  let used = 0
  return entries.map(entry => {
    const bytes = memory.subarray(used, used + entry.bytes.length)
    bytes.set(entry.bytes)
    used += bytes.length
    return { ...entry, bytes }
  })
}
