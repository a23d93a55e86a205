import type { Ring } from '../ring.ts'
import { entryOverheadBytes } from '../stream-log.ts'
import type { FiledRequest } from './filed-request.ts'
import { appendScript } from './scripts.ts'
import type { RedisLogSetup } from './setup.ts'

/** What a request's producer has appended and Redis has not got, oldest first. */
export interface AppendQueue {
  readonly length: number
  readonly bytes: number
  push(entry: QueuedEntry): void
  clear(): void
  /**
   * Sends the first batch. One is on its way at a time, so that one that is sent again cannot overtake the
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
/**
 * Redis holds at most this share of the request's bytes more than the ring, so that it need not trim each
 * time.
 */
const trimShare = 1 / 16

export function createAppendQueue(
  { keys, commands }: RedisLogSetup,
  { key, epoch, limits }: FiledRequest,
  ring: Ring,
): AppendQueue {
  let entries: QueuedEntry[] = []
  let bytes = 0
  /** The position of the first in the queue. */
  let first = 1
  let batchLength = 0
  const stream = keys.entries(key)
  const trimming = createTrimming(ring, limits.bytes * trimShare)

  const sizeOf = (entry: QueuedEntry) => entry.bytes.length + entryOverheadBytes

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
    push(entry: QueuedEntry): void {
      entries.push(entry)
      bytes += sizeOf(entry)
      trimming.appended(sizeOf(entry))
    },
    clear(): void {
      entries = []
      bytes = 0
    },
    async send(): Promise<string> {
      batchLength = measureBatch()
      const batch = entries.slice(0, batchLength)
      const dropBelow = trimming.dropBelow(first)
      const pairs = batch.flatMap(entry => [entry.receivedMs, entry.bytes])
      return String(await commands.call('EVAL', appendScript, 1, stream, epoch, first, dropBelow, ...pairs))
    },
    taken(): void {
      for (const entry of entries.splice(0, batchLength)) bytes -= sizeOf(entry)
      first += batchLength
      trimming.done()
    },
  }
}

/** Redis drops what the ring has dropped, when that is worth a command. */
function createTrimming(ring: Ring, worthBytes: number) {
  let appendedBytes = 0
  let trimmedBytes = 0
  let trimmingBytes = 0
  return {
    appended(bytes: number): void {
      appendedBytes += bytes
    },
    /** At most `limit`; 0 when nothing is worth it. */
    dropBelow(limit: number): number {
      const droppedBytes = appendedBytes - ring.bytes
      if (droppedBytes - trimmedBytes <= worthBytes) return 0
      trimmingBytes = droppedBytes
      return Math.min(ring.nextPosition - ring.entries, limit)
    },
    /** What was to be dropped is. */
    done(): void {
      trimmedBytes = trimmingBytes
    },
  }
}
