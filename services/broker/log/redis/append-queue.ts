import type { Ring } from '../ring.ts'
import { entryOverheadBytes } from '../stream-log.ts'
import type { FiledRequest } from './filed-request.ts'
import { appendScript } from './scripts.ts'
import type { RedisLogSetup } from './setup.ts'

/** What a request's producer has appended and Redis has not got, oldest first. */
export interface AppendQueue {
  readonly length: number
  readonly bytes: number
  /** What Redis holds of the entries. */
  readonly storedBytes: number
  /** Redis holds entries that the ring has dropped, so that `send` is worth a command. */
  readonly isTrimDue: boolean
  push(entry: QueuedEntry): void
  clear(): void
  /**
   * Sends the first batch, and drops what the ring has dropped. One is on its way at a time, so that one that is sent again cannot overtake the
   * next. Answers `ok`, `gone`, or the JSON of the end that the request has.
   */
  send(): Promise<string>
  /** What was sent last is in Redis. */
  taken(): void
}

export interface QueuedEntry {
  readonly bytes: Uint8Array
  readonly receivedMs: number
}

/** What one script appends. */
const maxBatchBytes = 256 * 1024
const maxBatchEntries = 512
/** Redis holds at most this share more than the ring, or so many bytes, so that not each command trims. */
const trimShare = 1 / 16
const minTrimBytes = 2 * 1024

export function createAppendQueue(
  { keys, commands, budget }: RedisLogSetup,
  { key, epoch }: FiledRequest,
  ring: Ring,
): AppendQueue {
  let entries: QueuedEntry[] = []
  let bytes = 0
  /** The position of the first in the queue. */
  let first = 1
  let batchLength = 0
  const stream = keys.entries(key)
  const stored = createStored()
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
    return length
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
      return String(await commands.call('EVAL', appendScript, 1, stream, epoch, first, dropBelow, ...pairs))
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

/** The entries that Redis holds. It drops those that the ring has dropped, when that is worth a command. */
function createStored() {
  /** By position, oldest first. */
  const sizes: number[] = []
  let first = 1
  let bytes = 0
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
    /** @param queuedBytes of the entries that the ring may hold and Redis has not got */
    isTrimDue(ring: Ring, queuedBytes: number): boolean {
      if (ring.firstPosition <= first) return false
      const droppedBytes = Math.min(bytes, bytes + queuedBytes - ring.bytes)
      return droppedBytes > Math.max(minTrimBytes, ring.bytes * trimShare)
    },
  }
}
