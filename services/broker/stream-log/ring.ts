import type { Clock } from '@tollway/chassis/clock.ts'
import type { ByteBudget } from './byte-budget.ts'
import { EntryQueue } from './entry-queue.ts'
import {
  type LogEntry,
  logEntryOverheadBytes,
  type RequestEnd,
  type RingCursor,
  type RingLimits,
  type RingReader,
} from './stream-log.ts'

const notWaiting = -1

interface RingOptions {
  /** The bytes of entry 0. */
  readonly header: Uint8Array
  readonly openedMs: number
  readonly limits: RingLimits
  readonly clock: Pick<Clock, 'nowMs'>
  readonly budget: ByteBudget
}

/** Is notified of the progress of readers, to report their positions to other brokers. */
export interface RingWatch {
  /** `onProgress` is called after each so many read bytes. */
  readonly reportBytes: number
  /** Called when all cursors together have read `reportBytes`, and when a cursor starts to hold entries. */
  onProgress(): void
  /** Called when a cursor was closed. */
  onClosed(): void
}

/**
 * The entries of one request, and the cursors that read them. The cost of an append does not depend on the
 * number of entries, and an append notifies only cursors that have taken all entries before.
 *
 * Rings and cursors are classes because each message passes them: V8 represents an object literal with
 * accessors as a hash table, which is slower.
 */
export class Ring {
  readonly #header: LogEntry
  readonly #limits: RingLimits
  readonly #clock: Pick<Clock, 'nowMs'>
  readonly #budget: ByteBudget
  #watch: RingWatch | undefined
  readonly #queue = new EntryQueue()
  readonly #cursors = new Set<Cursor>()
  /** See `RingCursor.hold`. */
  readonly #holders = new Set<Cursor>()
  readonly #waiting = new WaitingCursors()
  readonly #slowest = new SlowestPosition(this.#holders)
  #end: RequestEnd | undefined
  #full = false
  #released = false
  /** Whether the budget counts this ring. */
  #isCounted = true
  #unreportedBytes = 0
  #onRoom = () => {}

  constructor({ header, openedMs, limits, clock, budget }: RingOptions) {
    this.#header = { position: 0, bytes: header, receivedMs: openedMs }
    this.#limits = limits
    this.#clock = clock
    this.#budget = budget
    budget.addRing()
  }

  /**
   * Appends even to a full ring. Ignored after the end.
   *
   * @returns false if the ring is full: its slowest cursor holds entries that should be dropped
   */
  append(bytes: Uint8Array, receivedMs: number): boolean {
    if (this.#end !== undefined) return true
    const before = this.#queue.bytes
    this.#queue.push(bytes, receivedMs)
    this.#budget.spend(this.#queue.bytes - before)
    this.#trim(receivedMs)
    this.#waiting.wake()
    return !this.#full
  }

  /** Skips the entries before this position, which Redis has lost or dropped. Cursors before it get a gap. */
  skipTo(position: number): void {
    if (position <= this.#queue.end) return
    this.#budget.spend(-this.#queue.bytes)
    this.#queue.restartAt(position)
    this.#waiting.wake()
  }

  /**
   * Ends the time to keep an ended request: keeps only the last entry and the entries that cursors hold;
   * nothing without cursors.
   */
  release(): void {
    if (this.#released) return
    this.#released = true
    this.#trim(this.#clock.nowMs())
    this.#queue.seal()
    this.#discardUnlessNeeded()
  }

  /** If the budget is exceeded, drops entries; also checks whether a full ring has room again. */
  sweep(): void {
    if (!(this.#full || this.#budget.isExceeded)) return
    const wasFull = this.#full
    this.#trim(this.#clock.nowMs())
    if (wasFull && !this.#full) this.#onRoom()
  }

  /** Ends the request; ignored after an end. */
  finish(end: RequestEnd): void {
    if (this.#end !== undefined) return
    this.#end = end
    this.#full = false
    this.#queue.seal()
    this.#waiting.wake()
    this.#onRoom()
  }

  get end(): RequestEnd | undefined {
    return this.#end
  }

  read(reader: RingReader): RingCursor {
    const cursor = new Cursor(this, reader)
    this.#cursors.add(cursor)
    if (reader.waiting !== true) this.hold(cursor)
    this.#trim(this.#clock.nowMs())
    return cursor
  }

  /** Sets the listener that is called each time a full ring has room again, and at the end. */
  onRoom(listener: () => void): void {
    this.#onRoom = listener
  }

  /** Sets what is notified; undefined stops the notifications. */
  watch(watch: RingWatch | undefined): void {
    this.#watch = watch
  }

  get full(): boolean {
    return this.#full
  }

  /** The position of the oldest kept entry; if none is kept, of the next entry. */
  get firstPosition(): number {
    return this.#queue.first
  }

  /** The position of the next entry. */
  get nextPosition(): number {
    return this.#queue.end
  }

  /** The position of the slowest cursor that holds entries, if one does. */
  get slowestPosition(): number | undefined {
    return this.#holders.size === 0 ? undefined : Math.min(this.#slowest.position, this.#queue.end)
  }

  get cursors(): number {
    return this.#cursors.size
  }

  /** The number of kept entries, without the header. */
  get entries(): number {
    return this.#queue.end - this.#queue.first
  }

  /** The bytes of the kept entries, with `logEntryOverheadBytes` for each. */
  get bytes(): number {
    return this.#queue.bytes
  }

  /** Returns the bytes from this position on, counted as in `bytes`. */
  bytesFrom(position: number): number {
    return this.#queue.bytesFrom(position)
  }

  /**
   * Returns the entry at the cursor's position, and advances the cursor. If there is no entry yet, returns
   * undefined, and notifies the reader when there is one.
   */
  take(cursor: Cursor): LogEntry | undefined {
    const { rawPosition } = cursor
    if (rawPosition >= this.#queue.end) {
      this.#waiting.add(cursor)
      return undefined
    }
    const entry = rawPosition === 0 ? this.#header : this.#queue.at(rawPosition)
    this.move(cursor, rawPosition + 1)
    if (this.#watch !== undefined) this.#report(this.#watch, entry?.bytes.length ?? 0)
    return entry
  }

  #report(watch: RingWatch, readBytes: number): void {
    this.#unreportedBytes += readBytes + logEntryOverheadBytes
    if (this.#unreportedBytes < watch.reportBytes) return
    this.#unreportedBytes = 0
    watch.onProgress()
  }

  move(cursor: Cursor, to: number): void {
    const from = cursor.rawPosition
    cursor.rawPosition = to
    if (!cursor.holds) return
    this.#slowest.move(from, to)
    this.#trimAfterRead()
  }

  /** Makes the cursor hold the entries from its position on. */
  hold(cursor: Cursor): void {
    if (cursor.holds) return
    cursor.holds = true
    this.#holders.add(cursor)
    this.#slowest.move(undefined, cursor.rawPosition)
    this.#watch?.onProgress()
  }

  remove(cursor: Cursor): void {
    this.#cursors.delete(cursor)
    this.#waiting.remove(cursor)
    if (this.#holders.delete(cursor)) {
      this.#slowest.move(cursor.rawPosition, undefined)
      this.#trimAfterRead()
    }
    this.#discardUnlessNeeded()
    this.#watch?.onClosed()
  }

  positionFor(to: Parameters<RingCursor['seek']>[0]): number {
    const { first, end } = this.#queue
    if (to === 'oldest') return first
    if (to === 'newest') return end
    if (to === 'last') return Math.max(first, end - 1)
    if (typeof to === 'object') return this.#positionAt(this.#clock.nowMs() - to.lastMs)
    return to === 0 ? 0 : Math.max(to, first)
  }

  /** Returns the position of the oldest entry received at or after this time. */
  #positionAt(receivedMs: number): number {
    let low = this.#queue.first
    let high = this.#queue.end
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.#queue.receivedMs(middle) < receivedMs) low = middle + 1
      else high = middle
    }
    return low
  }

  #trim(nowMs: number): void {
    const queue = this.#queue
    this.#full = false
    while (this.#isOverLimit(nowMs)) {
      if (this.#limits.whenFull === 'wait' && queue.first >= this.#slowest.position) {
        this.#full = this.#end === undefined
        break
      }
      this.#dropOldest()
    }
    while (this.#isOptional() && (this.#released || this.#budget.isExceeded)) this.#dropOldest()
  }

  #discardUnlessNeeded(): void {
    if (!this.#released || this.#cursors.size > 0) return
    this.#budget.spend(-this.#queue.bytes)
    this.#queue.restartAt(this.#queue.end)
    if (this.#isCounted) this.#budget.removeRing()
    this.#isCounted = false
  }

  #dropOldest(): void {
    const before = this.#queue.bytes
    this.#queue.dropOldest()
    this.#budget.spend(this.#queue.bytes - before)
  }

  #isOverLimit(nowMs: number): boolean {
    const queue = this.#queue
    if (queue.end - queue.first <= 1) return false
    if (queue.bytes > this.#limits.bytes) return true
    if (this.#budget.isExceeded && queue.bytes > this.#budget.share) return true
    return queue.receivedMs(queue.first) < nowMs - this.#limits.ms
  }

  /** Whether the oldest entry may be dropped: no cursor holds it, and it is not the only one. */
  #isOptional(): boolean {
    const { first, end } = this.#queue
    return end - first > 1 && first < this.#slowest.position
  }

  /** If the ring is full or released, drops what the slowest cursor no longer holds. */
  #trimAfterRead(): void {
    if (!(this.#full || this.#released) || !this.#slowest.hasRisen) return
    const wasFull = this.#full
    this.#trim(this.#clock.nowMs())
    if (wasFull && !this.#full) this.#onRoom()
  }
}

class Cursor implements RingCursor {
  readonly #ring: Ring
  readonly reader: RingReader
  /**
   * The position of the next entry to read; 0 is the header. It may be before the oldest kept entry: the
   * entries between were dropped before the cursor read them.
   */
  rawPosition = 0
  /** The index in `WaitingCursors`, or `notWaiting`. */
  waitsAt = notWaiting
  open = true
  holds = false
  #gap = 0

  constructor(ring: Ring, reader: RingReader) {
    this.#ring = ring
    this.reader = reader
  }

  get position(): number {
    this.#skipDropped()
    return this.rawPosition
  }

  takeGap(): number {
    this.#skipDropped()
    const taken = this.#gap
    this.#gap = 0
    return taken
  }

  next(): LogEntry | undefined {
    if (!this.open) return undefined
    this.#skipDropped()
    return this.#ring.take(this)
  }

  seek(to: Parameters<RingCursor['seek']>[0]): void {
    this.#gap = 0
    if (this.open) this.#ring.move(this, this.#ring.positionFor(to))
  }

  get end(): RequestEnd | undefined {
    return this.rawPosition >= this.#ring.nextPosition ? this.#ring.end : undefined
  }

  get behind(): { readonly entries: number; readonly bytes: number } {
    const ring = this.#ring
    const entries = ring.nextPosition - Math.max(this.rawPosition, ring.firstPosition)
    return { entries: Math.max(0, entries), bytes: ring.bytesFrom(this.rawPosition) }
  }

  hold(): void {
    if (!this.open) return
    this.#skipDropped()
    this.#ring.hold(this)
  }

  close(): void {
    if (!this.open) return
    this.open = false
    this.#ring.remove(this)
  }

  #skipDropped(): void {
    const first = this.#ring.firstPosition
    if (!this.open || this.rawPosition === 0 || this.rawPosition >= first) return
    this.#gap += first - this.rawPosition
    this.#ring.move(this, first)
  }
}

/** Cursors that have taken every entry and wait for the next. */
class WaitingCursors {
  #cursors: Cursor[] = []
  /** Exchanged with `#cursors` at each `wake`, so that an append allocates no array. */
  #spare: Cursor[] | undefined

  add(cursor: Cursor): void {
    if (cursor.waitsAt !== notWaiting) return
    cursor.waitsAt = this.#cursors.length
    this.#cursors.push(cursor)
  }

  remove(cursor: Cursor): void {
    const cursors = this.#cursors
    if (cursors[cursor.waitsAt] !== cursor) return
    const last = cursors.pop()
    if (last === undefined || last === cursor) return
    cursors[cursor.waitsAt] = last
    last.waitsAt = cursor.waitsAt
  }

  /** Removes the cursors, and notifies their readers. */
  wake(): void {
    if (this.#cursors.length === 0) return
    const woken = this.#cursors
    this.#cursors = this.#spare ?? []
    // A notified reader may append, which calls `wake` again, without a spare array.
    this.#spare = undefined
    for (const cursor of woken) {
      cursor.waitsAt = notWaiting
      if (cursor.open) cursor.reader.onReadable()
    }
    woken.length = 0
    this.#spare = woken
  }
}

/**
 * Finds the lowest position of all cursors. They are searched only after the last cursor has left the lowest
 * position, so the average cost for each entry and cursor is constant.
 */
class SlowestPosition {
  readonly #cursors: ReadonlySet<Cursor>
  #lowest = Number.POSITIVE_INFINITY
  /** The number of cursors at the lowest position; 0 until the next lowest is searched. */
  #count = 0

  constructor(cursors: ReadonlySet<Cursor>) {
    this.#cursors = cursors
  }

  /** To be called when a cursor was added (no `from`), moved, or removed (no `to`). */
  move(from: number | undefined, to: number | undefined): void {
    if (from === this.#lowest) this.#count -= 1
    if (to === this.#lowest) this.#count += 1
    else if (to !== undefined && to < this.#lowest) {
      this.#lowest = to
      this.#count = 1
    }
  }

  /** Infinity without a cursor. */
  get position(): number {
    if (this.#count === 0) this.#search()
    return this.#lowest
  }

  /** Whether no cursor is left at the position that was found last. */
  get hasRisen(): boolean {
    return this.#count === 0
  }

  #search(): void {
    this.#lowest = Number.POSITIVE_INFINITY
    this.#count = 0
    for (const { rawPosition } of this.#cursors) {
      if (rawPosition < this.#lowest) {
        this.#lowest = rawPosition
        this.#count = 1
      } else if (rawPosition === this.#lowest) this.#count += 1
    }
  }
}
