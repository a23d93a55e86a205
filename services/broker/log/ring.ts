import type { Clock } from '@tollway/chassis/clock.ts'
import { createEntryQueue } from './entry-queue.ts'
import type { Entry, RequestEnd, RingCursor, RingLimits, RingReader } from './stream-log.ts'

/**
 * The entries of one request, and the cursors that read them. An append costs the same whatever is kept, and
 * tells only the cursors that have taken everything before it.
 */
export interface Ring {
  /**
   * Puts an entry behind the last one, however full the ring is. After the end it goes nowhere.
   *
   * @returns false when the ring is full: its slowest cursor holds what should make room.
   */
  append(bytes: Uint8Array, receivedMs: number): boolean
  /**
   * For a ring that is filled from elsewhere, where the entries before this position are gone. Cursors that
   * have not come to it learn of a gap.
   */
  skipTo(position: number): void
  /** Nothing holds it any more but cursors that still read it: takes it out of the budget. */
  release(): void
  /** Only the first end counts. */
  finish(end: RequestEnd): void
  readonly end: RequestEnd | undefined
  read(reader: RingReader): RingCursor
  /** Calls back each time when a full ring has room again, and when it has ended. */
  onRoom(listener: () => void): void
  readonly full: boolean
  /** The position of the next entry. */
  readonly nextPosition: number
  /** Where the slowest cursor is; `nextPosition` without any. */
  readonly slowestPosition: number
  readonly cursors: number
  /** What is kept: entries without the header, and their bytes with the overhead of each. */
  readonly entries: number
  readonly bytes: number
}

/** What the ring knows of a cursor. */
interface Place {
  /** 0 is the header; from 1 on a place may lie before the oldest entry: it has met a gap. */
  position: number
  /** Its place among those that have taken everything and wait for news, or `notWaiting`. */
  waitsAt: number
  open: boolean
  readonly reader: RingReader
}

const notWaiting = -1

export interface RingOptions {
  /** The bytes of entry 0. */
  readonly header: Uint8Array
  readonly openedMs: number
  readonly limits: RingLimits
  /** Only its `nowMs` is used. */
  readonly clock: Pick<Clock, 'nowMs'>
  /** What all rings of the process keep; left out where that is bounded otherwise. */
  readonly budget?: ByteBudget
}

/**
 * What rings keep together beyond which each of them keeps nothing that all its cursors have taken: what waits
 * for a consumer is bounded by its own ring, what might be of use to a late one by this.
 */
export interface ByteBudget {
  used: number
  readonly limit: number
}

export function createRing({ header, openedMs, limits, clock, budget }: RingOptions): Ring {
  const headerEntry: Entry = { position: 0, bytes: header, receivedMs: openedMs }
  const queue = createEntryQueue()
  const places = new Set<Place>()
  const waits = createWaits()
  const floor = createFloor(places)
  let end: RequestEnd | undefined
  let full = false
  let released = false
  let onRoom = () => {}

  function trim(nowMs: number): void {
    full = false
    const before = queue.bytes
    while (isOverLimit(nowMs)) {
      if (limits.whenFull === 'wait' && queue.first >= floor.position()) {
        full = end === undefined
        break
      }
      queue.dropOldest()
    }
    spend(queue.bytes - before)
    while (isOverBudget()) {
      const kept = queue.bytes
      queue.dropOldest()
      spend(queue.bytes - kept)
    }
  }

  function isOverBudget(): boolean {
    if (budget === undefined || budget.used <= budget.limit || queue.end - queue.first <= 1) return false
    return queue.first < floor.position()
  }

  /** A ring that was released is no part of the sum any more. */
  function spend(bytes: number): void {
    if (budget !== undefined && !released) budget.used += bytes
  }

  function isOverLimit(nowMs: number): boolean {
    if (queue.end - queue.first <= 1) return false
    if (queue.bytes > limits.bytes) return true
    return (queue.at(queue.first)?.receivedMs ?? nowMs) < nowMs - limits.ms
  }

  function move(place: Place, to: number): void {
    const from = place.position
    place.position = to
    floor.moved(from, to)
    if (full && floor.hasRisen()) relieve()
  }

  function relieve(): void {
    trim(clock.nowMs())
    if (!full) onRoom()
  }

  function take(place: Place): Entry | undefined {
    const { position } = place
    if (position >= queue.end) {
      waits.add(place)
      return undefined
    }
    const entry = position === 0 ? headerEntry : queue.at(position)
    move(place, position + 1)
    return entry
  }

  /** The oldest position whose entry came in at or after this time. */
  function positionAt(receivedMs: number): number {
    let low = queue.first
    let high = queue.end
    while (low < high) {
      const middle = (low + high) >>> 1
      if ((queue.at(middle)?.receivedMs ?? 0) < receivedMs) low = middle + 1
      else high = middle
    }
    return low
  }

  function positionFor(to: Parameters<RingCursor['seek']>[0]): number {
    if (to === 'oldest') return queue.first
    if (to === 'newest') return queue.end
    if (typeof to === 'object') return positionAt(clock.nowMs() - to.lastMs)
    return to === 0 ? 0 : Math.min(Math.max(to, queue.first), queue.end)
  }

  function read(reader: RingReader): RingCursor {
    const place: Place = { position: 0, waitsAt: notWaiting, open: true, reader }
    let gap = 0
    places.add(place)
    floor.moved(undefined, 0)
    trim(clock.nowMs())

    function skipWhatIsGone(): void {
      if (!place.open || place.position === 0 || place.position >= queue.first) return
      gap += queue.first - place.position
      move(place, queue.first)
    }

    return {
      get position() {
        skipWhatIsGone()
        return place.position
      },
      takeGap() {
        skipWhatIsGone()
        const taken = gap
        gap = 0
        return taken
      },
      next() {
        if (!place.open) return undefined
        skipWhatIsGone()
        return take(place)
      },
      seek(to) {
        gap = 0
        if (place.open) move(place, positionFor(to))
      },
      get end() {
        return place.position >= queue.end ? end : undefined
      },
      get behind() {
        const entries = queue.end - Math.max(place.position, queue.first)
        return { entries, bytes: queue.bytesFrom(place.position) }
      },
      close() {
        if (!place.open) return
        place.open = false
        places.delete(place)
        waits.remove(place)
        floor.moved(place.position, undefined)
        if (full && floor.hasRisen()) relieve()
      },
    }
  }

  return {
    append(bytes, receivedMs) {
      if (end !== undefined) return true
      const before = queue.bytes
      queue.push(bytes, receivedMs)
      spend(queue.bytes - before)
      trim(receivedMs)
      waits.wake()
      return !full
    },
    skipTo(position) {
      if (position <= queue.end) return
      spend(-queue.bytes)
      queue.restartAt(position)
      waits.wake()
    },
    release() {
      spend(-queue.bytes)
      released = true
    },
    finish(how) {
      if (end !== undefined) return
      end = how
      full = false
      queue.seal()
      waits.wake()
      onRoom()
    },
    get end() {
      return end
    },
    read,
    onRoom(listener) {
      onRoom = listener
    },
    get full() {
      return full
    },
    get nextPosition() {
      return queue.end
    },
    get slowestPosition() {
      return Math.min(floor.position(), queue.end)
    },
    get cursors() {
      return places.size
    },
    get entries() {
      return queue.end - queue.first
    },
    get bytes() {
      return queue.bytes
    },
  }
}

/** The cursors that have taken everything. */
function createWaits() {
  let waiting: Place[] = []
  /** Used in turns with it, so that an append makes no array. */
  let spare: Place[] | undefined
  return {
    add(place: Place): void {
      if (place.waitsAt !== notWaiting) return
      place.waitsAt = waiting.length
      waiting.push(place)
    },
    remove(place: Place): void {
      if (waiting[place.waitsAt] !== place) return
      const last = waiting.pop()
      if (last === undefined || last === place) return
      waiting[place.waitsAt] = last
      last.waitsAt = place.waitsAt
    },
    wake(): void {
      if (waiting.length === 0) return
      const woken = waiting
      waiting = spare ?? []
      // A reader that is told may bring about the next call; that one finds no spare.
      spare = undefined
      for (const place of woken) {
        place.waitsAt = notWaiting
        if (place.open) place.reader.onNews()
      }
      woken.length = 0
      spare = woken
    },
  }
}

/**
 * Where the slowest cursor is. Looked for only when the last one has left the place where it was found, so
 * that it costs each cursor a fixed share of each entry.
 */
function createFloor(places: ReadonlySet<Place>) {
  let lowest = Number.POSITIVE_INFINITY
  let cursorsThere = 0

  function look(): void {
    lowest = Number.POSITIVE_INFINITY
    cursorsThere = 0
    for (const { position } of places) {
      if (position < lowest) {
        lowest = position
        cursorsThere = 1
      } else if (position === lowest) cursorsThere += 1
    }
  }

  return {
    /** A cursor came (`from` undefined), went on, or left (`to` undefined). */
    moved(from: number | undefined, to: number | undefined): void {
      if (from === lowest) cursorsThere -= 1
      if (to === lowest) cursorsThere += 1
      else if (to !== undefined && to < lowest) {
        lowest = to
        cursorsThere = 1
      }
    },
    /** Infinity without cursors. */
    position(): number {
      if (cursorsThere === 0) look()
      return lowest
    },
    hasRisen: () => cursorsThere === 0,
  }
}
