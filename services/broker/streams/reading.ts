import type { RingCursor } from '../log/stream-log.ts'
import { encodeStatusMessage } from '../wire/encode-status.ts'
import type { Status } from '../wire/status.ts'
import { howMany } from './how-many.ts'
import { type Beginning, seekBeginning } from './late-join.ts'

/**
 * What one consumer gets of one request, message by message: the header, the entries in their order, each gap
 * told by a status that names the next message, and a status at the end.
 */
export interface Reading {
  /** The next message; undefined when there is none yet, and at the end. */
  next(): Uint8Array | undefined
  /** Everything was given. */
  readonly over: boolean
  /** The header was given, so that the consumer is owed a status. */
  readonly begun: boolean
  /** How many entries were trimmed that the consumer has neither got nor been told of. */
  readonly gap: number
  /**
   * Puts in a status before the next entry, which it names: a consumer counts what it gets, to resume, and this
   * is none of the request's messages.
   */
  tell(status: Status): void
  /** Ends with this status, which is the next message. */
  stop(status: Status): void
  readonly behind: RingCursor['behind']
  close(): void
}

/** Statuses of ours that wait for a consumer; more are left out. */
const maxNotices = 8

/**
 * @param cursor that was not moved
 * @param onGap called with each gap just before it is told; what it throws comes out of `next`
 */
export function createReading(
  cursor: RingCursor,
  beginning: Beginning,
  onGap: (messages: number) => void,
): Reading {
  const header = cursor.next()
  const skipped = seekBeginning(cursor, beginning)
  const beginsAt = cursor.position
  let atJoin = skipped > 0 ? noticeOf(beginning, skipped, beginsAt) : undefined
  const notices: Status[] = []
  let begun = false
  let over = false
  let stopped: Status | undefined
  let gap = 0

  function noticeAtJoin(status: Status): Uint8Array {
    atJoin = undefined
    return encodeStatusMessage(status)
  }

  /** Only before another entry: a status that comes last is the producer's. */
  function nextNotice(): Uint8Array | undefined {
    if (notices.length === 0 || cursor.behind.entries === 0) return undefined
    const notice = notices.shift()
    if (notice === undefined) return undefined
    return encodeStatusMessage({ ...notice, message: `${notice.message}, ${nextIs(cursor.position)}` })
  }

  function findGap(): number {
    gap += cursor.takeGap()
    return gap
  }

  function tellGap(): Uint8Array {
    onGap(gap)
    const dropped = `${howMany(gap, 'message was', 'messages were')} dropped`
    const message = `${dropped}, ${nextIs(cursor.position)}`
    gap = 0
    return encodeStatusMessage({ code: 'WARNING', message })
  }

  function finishWith(status: Status): Uint8Array {
    over = true
    return encodeStatusMessage(status)
  }

  function nextAtEnd(): Uint8Array | undefined {
    const { end } = cursor
    if (end === undefined) return undefined
    if (end.how !== 'completed') return finishWith(end.status)
    over = true
    if (cursor.position > beginsAt || beginsAt <= 1) return undefined
    // Who comes after the producer's last status gets that all the same.
    cursor.seek(cursor.position - 1)
    return cursor.next()?.bytes
  }

  return {
    next() {
      if (over) return undefined
      if (!begun) {
        begun = true
        return header?.bytes
      }
      if (stopped !== undefined) return finishWith(stopped)
      if (atJoin !== undefined) return noticeAtJoin(atJoin)
      if (findGap() > 0) return tellGap()
      return nextNotice() ?? cursor.next()?.bytes ?? nextAtEnd()
    },
    get over() {
      return over
    },
    get begun() {
      return begun
    },
    get gap() {
      return findGap()
    },
    tell(status) {
      if (notices.length < maxNotices) notices.push(status)
    },
    stop(status) {
      stopped = status
      // Nobody waits any more for a consumer that may take its time for this status.
      cursor.close()
    },
    get behind() {
      return cursor.behind
    },
    close: () => cursor.close(),
  }
}

function noticeOf({ at }: Beginning, skipped: number, position: number): Status {
  const next = nextIs(position)
  if (at !== 'message') return { code: 'INFO', message: `joined late, ${next}` }
  const gone = `${howMany(skipped, 'message is', 'messages are')} not kept any more`
  return { code: 'WARNING', message: `${gone}, ${next}` }
}

/** The end of each status that is none of the request's messages and has another one behind it. */
const nextIs = (position: number) => `the next is message ${position}`
