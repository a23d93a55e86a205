import type { RingCursor } from '../log/stream-log.ts'
import { encodeStatusMessage } from '../wire/encode-status.ts'
import type { Status } from '../wire/status.ts'
import { howMany } from './how-many.ts'
import { type Beginning, seekBeginning } from './late-join.ts'

/** Statuses of ours that wait for a consumer; more are left out. */
const maxNotices = 8

/**
 * What one consumer gets of one request, message by message: the header, the entries in their order, each gap
 * told by a status that names the next message, and a status at the end.
 */
export class Reading {
  readonly #cursor: RingCursor
  readonly #onGap: (messages: number) => void
  readonly #header: Uint8Array | undefined
  readonly #beginsAt: number
  #atJoin: Status | undefined
  readonly #notices: Status[] = []
  #stopped: Status | undefined
  #gap = 0
  #begun = false
  #over = false

  /**
   * @param cursor that was not moved
   * @param onGap called with each gap just before it is told; what it throws comes out of `next`
   */
  constructor(cursor: RingCursor, beginning: Beginning, onGap: (messages: number) => void) {
    this.#cursor = cursor
    this.#onGap = onGap
    this.#header = cursor.next()?.bytes
    const skipped = seekBeginning(cursor, beginning)
    this.#beginsAt = cursor.position
    this.#atJoin = skipped > 0 ? noticeOf(beginning, skipped, this.#beginsAt) : undefined
  }

  /** The next message; undefined when there is none yet, and at the end. */
  next(): Uint8Array | undefined {
    if (this.#over) return undefined
    if (!this.#begun) {
      this.#begun = true
      return this.#header
    }
    if (this.#stopped !== undefined) return this.#finishWith(this.#stopped)
    if (this.#atJoin !== undefined) return this.#noticeAtJoin(this.#atJoin)
    if (this.gap > 0) return this.#tellGap()
    return this.#nextNotice() ?? this.#cursor.next()?.bytes ?? this.#nextAtEnd()
  }

  /** Everything was given. */
  get over(): boolean {
    return this.#over
  }

  /** How many entries were trimmed that the consumer has neither got nor been told of. */
  get gap(): number {
    this.#gap += this.#cursor.takeGap()
    return this.#gap
  }

  /**
   * Puts in a status before the next entry, which it names: a consumer counts what it gets, to resume, and this
   * is none of the request's messages.
   */
  tell(status: Status): void {
    if (this.#notices.length < maxNotices) this.#notices.push(status)
  }

  /** Ends with this status, which is the next message. */
  stop(status: Status): void {
    this.#stopped = status
    // Nobody waits any more for a consumer that may take its time for this status.
    this.#cursor.close()
  }

  get behind(): RingCursor['behind'] {
    return this.#cursor.behind
  }

  close(): void {
    this.#cursor.close()
  }

  #noticeAtJoin(status: Status): Uint8Array {
    this.#atJoin = undefined
    return encodeStatusMessage(status)
  }

  /** Only before another entry: a status that comes last is the producer's. */
  #nextNotice(): Uint8Array | undefined {
    if (this.#notices.length === 0 || this.#cursor.behind.entries === 0) return undefined
    const notice = this.#notices.shift()
    if (notice === undefined) return undefined
    return encodeStatusMessage({ ...notice, message: `${notice.message}, ${nextIs(this.#cursor.position)}` })
  }

  #tellGap(): Uint8Array {
    const messages = this.#gap
    this.#onGap(messages)
    this.#gap = 0
    const dropped = `${howMany(messages, 'message was', 'messages were')} dropped`
    return encodeStatusMessage({ code: 'WARNING', message: `${dropped}, ${nextIs(this.#cursor.position)}` })
  }

  #finishWith(status: Status): Uint8Array {
    this.#over = true
    return encodeStatusMessage(status)
  }

  #nextAtEnd(): Uint8Array | undefined {
    const cursor = this.#cursor
    const { end } = cursor
    if (end === undefined) return undefined
    if (end.how !== 'completed') return this.#finishWith(end.status)
    this.#over = true
    if (cursor.position > this.#beginsAt || this.#beginsAt <= 1) return undefined
    // Who comes after the producer's last status gets that all the same.
    cursor.seek(cursor.position - 1)
    return cursor.next()?.bytes
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
