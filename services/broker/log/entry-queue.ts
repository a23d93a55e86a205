import { type Entry, entryOverheadBytes } from './stream-log.ts'

/** The entries of a ring without its header: a range of positions, in a circular array that grows at need. */
export interface EntryQueue {
  /** The position of the oldest entry, and the one behind the newest; equal when there is none. */
  readonly first: number
  readonly end: number
  /** Of all entries, each with `entryOverheadBytes`. */
  readonly bytes: number
  /** The entry at a position from `first` to before `end`. */
  at(position: number): Entry | undefined
  push(bytes: Uint8Array, receivedMs: number): void
  dropOldest(): void
  /** Drops all; the next entry has this position. */
  restartAt(position: number): void
  /**
   * Nothing more will be pushed: few bytes are kept without what else lies in their memory, and no slots that are
   * not used.
   */
  seal(): void
  /** Of the entries from this position on. */
  bytesFrom(position: number): number
}

const initialCapacity = 16
/** Beyond it, what a sealed queue would save is little beside what it keeps. */
const maxCopiedBytes = 64 * 1024

/** What came before an entry, so that the bytes behind any position are known without counting. */
interface CountedEntry extends Entry {
  readonly bytesBefore: number
}

/** An empty queue, whose first entry has the position 1: the header's is 0. */
export function createEntryQueue(): EntryQueue {
  /** The entry at a position lies at the position modulo the length. */
  let slots: (CountedEntry | undefined)[] = new Array(initialCapacity).fill(undefined)
  let first = 1
  let end = 1
  let bytesPushed = 0
  let bytesDropped = 0

  const slotOf = (position: number) => position % slots.length
  const sizeOf = (entry: Entry) => entry.bytes.length + entryOverheadBytes

  function grow(): void {
    const larger: (CountedEntry | undefined)[] = new Array(2 * slots.length).fill(undefined)
    for (let position = first; position < end; position += 1) {
      larger[position % larger.length] = slots[slotOf(position)]
    }
    slots = larger
  }

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

  /** In the order of their positions. */
  function kept(): CountedEntry[] {
    const entries: CountedEntry[] = []
    for (let position = first; position < end; position += 1) {
      const entry = slots[slotOf(position)]
      if (entry !== undefined) entries.push(entry)
    }
    return entries
  }

  return {
    get first() {
      return first
    },
    get end() {
      return end
    },
    get bytes() {
      return bytesPushed - bytesDropped
    },
    at: position => slots[slotOf(position)],
    push(bytes, receivedMs) {
      if (end - first === slots.length) grow()
      const entry = { position: end, bytes, receivedMs, bytesBefore: bytesPushed }
      slots[slotOf(end)] = entry
      end += 1
      bytesPushed += sizeOf(entry)
    },
    dropOldest() {
      const oldest = slots[slotOf(first)]
      if (oldest === undefined) return
      slots[slotOf(first)] = undefined
      first += 1
      bytesDropped += sizeOf(oldest)
    },
    restartAt(position) {
      slots = new Array(initialCapacity).fill(undefined)
      first = position
      end = position
      bytesDropped = bytesPushed
    },
    seal() {
      if (bytesPushed - bytesDropped > maxCopiedBytes) return
      const entries = copyTogether(kept())
      const sealed: (CountedEntry | undefined)[] = new Array(Math.max(1, entries.length)).fill(undefined)
      for (const entry of entries) sealed[entry.position % sealed.length] = entry
      slots = sealed
    },
    bytesFrom(position) {
      if (position >= end) return 0
      const from = slots[slotOf(Math.max(position, first))]
      return bytesPushed - (from?.bytesBefore ?? bytesPushed)
    },
  }
}
