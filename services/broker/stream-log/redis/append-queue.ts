import type { Ring } from '../ring.ts'
import { logEntryOverheadBytes, type StoredProgress } from '../stream-log.ts'
import type { DirectoryEntry } from './directory-entry.ts'
import { appendScript } from './scripts.ts'
import type { RedisLogSetup } from './setup.ts'

interface QueuedEntry {
  readonly bytes: Uint8Array
  readonly receivedMs: number
  /** Undefined for an entry that must reach Redis together with the next one. */
  readonly progress: StoredProgress | undefined
}

/** One script appends at most this many bytes, except for a single larger entry. */
const maxBatchBytes = 256 * 1024
const maxBatchEntries = 512
/** At most this many consecutive entries without progress are kept together with the next entry. */
const maxTiedEntries = 8

const measureEntry = ({ bytes }: QueuedEntry) => bytes.length + logEntryOverheadBytes

/** Entries that Redis has not acknowledged, oldest first. */
export class AppendQueue {
  readonly #setup: RedisLogSetup
  readonly #directoryEntry: DirectoryEntry
  readonly #ring: Ring
  readonly #stored: StoredEntries
  #entries: QueuedEntry[] = []
  #bytes = 0
  /** The position of the first queued entry in the request. */
  #first: number
  #batchLength = 0
  /** The next command makes Redis drop the entries below this position; 0 for none. */
  #dropBelow = 0

  constructor(setup: RedisLogSetup, directoryEntry: DirectoryEntry, ring: Ring) {
    this.#setup = setup
    this.#directoryEntry = directoryEntry
    this.#ring = ring
    this.#first = ring.nextPosition
    this.#stored = new StoredEntries(ring)
  }

  get length(): number {
    return this.#entries.length
  }

  get bytes(): number {
    return this.#bytes
  }

  /** The bytes of entries that Redis stores. */
  get storedBytes(): number {
    return this.#stored.bytes
  }

  /** Whether Redis stores so many entries that the ring has dropped that a command is worth it. */
  get isTrimDue(): boolean {
    return this.#stored.isTrimDue(this.#bytes)
  }

  push(entry: QueuedEntry): void {
    this.#entries.push(entry)
    this.#count(measureEntry(entry))
  }

  clear(): void {
    this.#entries = []
    this.#count(-this.#bytes)
  }

  /**
   * Sends the first batch, and drops entries in Redis that the ring has dropped. Only one batch is in flight,
   * so that a repeated batch cannot overtake the next. Returns `ok`, `missing`, `moved`, or the JSON of the
   * end.
   */
  async send(): Promise<string> {
    const { keys, commands } = this.#setup
    const { key, epoch, owner } = this.#directoryEntry
    this.#batchLength = this.#measureBatch()
    const batch = this.#entries.slice(0, this.#batchLength)
    this.#dropBelow = this.isTrimDue ? Math.min(this.#ring.firstPosition, this.#first) : 0
    const progress = batch.at(-1)?.progress
    const reply = await commands.runScript(
      appendScript,
      [keys.entries(key), keys.producer(key)],
      [
        ...[epoch, this.#first, this.#dropBelow, owner],
        progress === undefined ? '' : JSON.stringify(progress),
        ...batch.flatMap(entry => [entry.receivedMs, entry.bytes]),
      ],
    )
    return String(reply)
  }

  /** Removes the entries of the last batch, which Redis has acknowledged. */
  acknowledge(): void {
    for (const entry of this.#entries.splice(0, this.#batchLength)) {
      this.#count(-measureEntry(entry))
      this.#stored.add(measureEntry(entry))
    }
    this.#first += this.#batchLength
    this.#stored.dropBelow(this.#dropBelow)
  }

  #count(bytes: number): void {
    this.#bytes += bytes
    this.#setup.budget.spend(bytes)
  }

  #measureBatch(): number {
    let size = 0
    let length = 0
    for (const entry of this.#entries) {
      size += measureEntry(entry)
      if (length > 0 && (size > maxBatchBytes || length === maxBatchEntries)) break
      length += 1
    }
    return length + this.#measureTied(length)
  }

  /** Returns how many entries behind the first `length` must be sent together with them. */
  #measureTied(length: number): number {
    let tied = 0
    while (tied < maxTiedEntries && length + tied < this.#entries.length) {
      if (this.#entries[length + tied - 1]?.progress !== undefined) return tied
      tied += 1
    }
    return tied
  }
}

/** Redis may store this share more than the ring, so that not every command drops entries. */
const trimShare = 1 / 16
const minTrimBytes = 2 * 1024

/**
 * The entries that Redis stores. When `isTrimDue`, the entries that the ring has dropped are dropped in Redis
 * too.
 */
class StoredEntries {
  readonly #ring: Ring
  /** The size of each entry, oldest first. */
  readonly #sizes: number[] = []
  #first: number
  #bytes: number

  /** @param ring the ring whose entries are already in Redis */
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

  /** @param queuedBytes the bytes of entries that may be in the ring but are not acknowledged */
  isTrimDue(queuedBytes: number): boolean {
    const ring = this.#ring
    if (ring.firstPosition <= this.#first) return false
    const droppedBytes = Math.min(this.#bytes, this.#bytes + queuedBytes - ring.bytes)
    return droppedBytes > Math.max(minTrimBytes, ring.bytes * trimShare)
  }
}
