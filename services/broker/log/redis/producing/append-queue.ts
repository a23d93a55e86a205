import type { Ring } from '../../ring.ts'
import { entryOverheadBytes, type Progress } from '../../stream-log.ts'
import type { DirectoryEntry } from '../directory/directory-entry.ts'
import { appendScript } from '../scripts.ts'
import type { RedisLogSetup } from '../setup.ts'

/** The entries that a request's producer has appended and Redis has not acknowledged, oldest first. */
export interface AppendQueue {
  readonly length: number
  readonly bytes: number
  /** The bytes of the entries that Redis stores. */
  readonly storedBytes: number
  /** Redis stores enough entries that the ring has dropped to make `send` worth a command. */
  readonly isTrimDue: boolean
  push(entry: QueuedEntry): void
  clear(): void
  /**
   * Sends the first batch, and drops the entries that the ring has dropped. Only one batch is in flight, so
   * that a repeated batch cannot overtake the next. Returns `ok`, `gone`, `moved`, or the JSON of the
   * request's end.
   */
  send(): Promise<string>
  /** Redis has acknowledged the last batch. */
  taken(): void
}

export interface QueuedEntry {
  readonly bytes: Uint8Array
  readonly receivedMs: number
  /** Undefined for an entry that belongs to the next one. */
  readonly progress: Progress | undefined
}

/** The maximum that one script appends. */
const maxBatchBytes = 256 * 1024
const maxBatchEntries = 512
/** The maximum number of consecutive entries that belong to the next one. */
const maxTiedEntries = 8
/**
 * Redis stores at most this share more than the ring, or this number of bytes, so that not every command
 * trims.
 */
const trimShare = 1 / 16
const minTrimBytes = 2 * 1024

export function createAppendQueue(
  { keys, commands, budget }: RedisLogSetup,
  { key, epoch, owner }: DirectoryEntry,
  ring: Ring,
): AppendQueue {
  let entries: QueuedEntry[] = []
  let bytes = 0
  /** The position of the first entry in the queue. */
  let first = ring.nextPosition
  let batchLength = 0
  const names = [keys.entries(key), keys.producer(key)]
  const stored = createStored(ring)
  /** The position below which the last command drops entries. */
  let dropBelow = 0

  const sizeOf = (entry: QueuedEntry) => entry.bytes.length + entryOverheadBytes

  function count(more: number): void {
    bytes += more
    budget.spend(more)
  }

  function measureBatch(): number {
    let size = 0
    let length = 0
    for (const entry of entries) {
      size += sizeOf(entry)
      if (length > 0 && (size > maxBatchBytes || length === maxBatchEntries)) break
      length += 1
    }
    return length + measureTied(length)
  }

  /** The number of entries after `length` that must not be separated from them. */
  function measureTied(length: number): number {
    let tied = 0
    while (tied < maxTiedEntries && length + tied < entries.length) {
      if (entries[length + tied - 1]?.progress !== undefined) return tied
      tied += 1
    }
    return tied
  }

  return {
    get length() {
      return entries.length
    },
    get bytes() {
      return bytes
    },
    get storedBytes() {
      return stored.bytes
    },
    get isTrimDue() {
      return stored.isTrimDue(ring, bytes)
    },
    push(entry: QueuedEntry): void {
      entries.push(entry)
      count(sizeOf(entry))
    },
    clear(): void {
      entries = []
      count(-bytes)
    },
    async send(): Promise<string> {
      batchLength = measureBatch()
      const batch = entries.slice(0, batchLength)
      dropBelow = stored.isTrimDue(ring, bytes) ? Math.min(ring.firstPosition, first) : 0
      const pairs = batch.flatMap(entry => [entry.receivedMs, entry.bytes])
      const progress = batch.at(-1)?.progress
      const values = [epoch, first, dropBelow, owner, progress === undefined ? '' : JSON.stringify(progress)]
      return String(await commands.call('EVAL', appendScript, names.length, ...names, ...values, ...pairs))
    },
    taken(): void {
      for (const entry of entries.splice(0, batchLength)) {
        count(-sizeOf(entry))
        stored.add(sizeOf(entry))
      }
      first += batchLength
      stored.dropBelow(dropBelow)
    },
  }
}

/**
 * The entries that Redis stores. They are dropped after the ring has dropped them, when this is worth a
 * command.
 */
function createStored(ring: Ring) {
  /** By position, oldest first. */
  const sizes: number[] = []
  let first = ring.firstPosition
  let bytes = ring.bytes
  for (let position = first; position < ring.nextPosition; position += 1) {
    sizes.push(ring.bytesFrom(position) - ring.bytesFrom(position + 1))
  }
  return {
    get bytes() {
      return bytes
    },
    add(size: number): void {
      sizes.push(size)
      bytes += size
    },
    dropBelow(position: number): void {
      for (; first < position && sizes.length > 0; first += 1) bytes -= sizes.shift() ?? 0
    },
    /** @param queuedBytes of the entries that the ring may have and Redis has not acknowledged */
    isTrimDue(ring: Ring, queuedBytes: number): boolean {
      if (ring.firstPosition <= first) return false
      const droppedBytes = Math.min(bytes, bytes + queuedBytes - ring.bytes)
      return droppedBytes > Math.max(minTrimBytes, ring.bytes * trimShare)
    },
  }
}
