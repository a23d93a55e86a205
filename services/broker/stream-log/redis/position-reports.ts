import type { Ring } from '../ring.ts'
import type { RingCursor } from '../stream-log.ts'
import type { DirectoryEntry } from './directory-entry.ts'
import type { RedisLogSetup } from './setup.ts'

/** The readers of one request at this broker. */
export interface ReportedReaders {
  readonly entry: DirectoryEntry
  /** The position of the slowest reader that holds messages, if one does. */
  readonly slowestPosition: number | undefined
}

/**
 * A report in an inbox: the position of the slowest reader at the sending broker; null if none there holds
 * messages.
 */
export type PositionReport = readonly [key: string, position: number | null]

/** Decodes the field behind the id of the sending broker. */
export function decodeReports(text: string): readonly PositionReport[] {
  return text === '' ? [] : JSON.parse(text)
}

interface SentReport {
  readonly podId: string
  readonly position: number
  readonly atMs: number
}

/** A position that has not changed is reported again after this share of `lostMs`. */
const repeatShare = 1 / 5

/**
 * Reports positions of local readers to the brokers whose producers wait for them: at the end of the turn in
 * which `update` is called, otherwise periodically. A producer's broker stops waiting for a broker from which
 * no report came for `lostMs`.
 */
export class PositionReports {
  readonly #setup: RedisLogSetup
  /** The readers that hold messages, each with the last report about it. */
  readonly #last = new Map<ReportedReaders, SentReport | undefined>()
  #scheduled = false

  constructor(setup: RedisLogSetup) {
    this.#setup = setup
  }

  /** To be called when the position has changed enough for a report, or no reader holds messages any more. */
  update(readers: ReportedReaders): void {
    if (readers.slowestPosition === undefined) {
      this.#remove(readers)
      return
    }
    if (!this.#last.has(readers)) this.#last.set(readers, undefined)
    if (this.#scheduled) return
    // Other events of this turn go into the same reports.
    this.#scheduled = true
    setImmediate(() => this.sendDue())
  }

  /** Sends the reports that are due, in one message to each broker. */
  sendDue(): void {
    this.#scheduled = false
    const nowMs = this.#setup.clock.monotonicMs()
    const due: { readonly podId: string; readonly report: PositionReport }[] = []
    for (const [readers, last] of this.#last) {
      const { slowestPosition: position, entry } = readers
      const { key, podId } = entry
      if (position === undefined || !this.#isDue(last, podId, position, nowMs)) continue
      this.#last.set(readers, { podId, position, atMs: nowMs })
      due.push({ podId, report: [key, position] })
    }
    for (const [podId, group] of Map.groupBy(due, one => one.podId)) {
      const reports = group.map(({ report }) => report)
      this.#send(podId, reports)
    }
  }

  #isDue(last: SentReport | undefined, podId: string, position: number, nowMs: number): boolean {
    if (last === undefined || last.position !== position || last.podId !== podId) return true
    return nowMs - last.atMs > this.#setup.timings.lostMs * repeatShare
  }

  #remove(readers: ReportedReaders): void {
    const { key, podId } = readers.entry
    if (this.#last.get(readers) !== undefined) this.#send(podId, [[key, null]])
    this.#last.delete(readers)
  }

  #send(podId: string, reports: readonly PositionReport[]): void {
    const { keys, commands, podId: from } = this.#setup
    // NOMKSTREAM: the inbox of a lost broker must not be created again. A lost report is repeated.
    const inbox = ['XADD', keys.inbox(podId), 'NOMKSTREAM', 'MAXLEN', '~', 1000, '*'] as const
    commands.call(...inbox, from, JSON.stringify(reports)).catch(() => {})
  }
}

/**
 * Makes a producer wait for readers at other brokers: for each of these brokers, the ring has a cursor at the
 * position of the slowest reader.
 */
export class RemoteReaders {
  readonly #setup: RedisLogSetup
  readonly #ring: Ring
  readonly #pods = new Map<string, { readonly cursor: RingCursor; reportedMs: number }>()

  constructor(setup: RedisLogSetup, ring: Ring) {
    this.#setup = setup
    this.#ring = ring
  }

  /** @param position the position of the slowest reader; undefined if none holds messages */
  report(podId: string, position: number | undefined): void {
    if (position === undefined || this.#ring.end !== undefined) {
      this.#drop(podId)
      return
    }
    const reportedMs = this.#setup.clock.monotonicMs()
    const pod = this.#pods.get(podId) ?? { cursor: this.#ring.read({ onReadable() {} }), reportedMs }
    this.#pods.set(podId, pod)
    pod.reportedMs = reportedMs
    pod.cursor.seek(position)
  }

  /** Removes brokers without a report for `lostMs`. */
  dropSilent(): void {
    const { clock, timings } = this.#setup
    const beforeMs = clock.monotonicMs() - timings.lostMs
    for (const [podId, { reportedMs }] of this.#pods) if (reportedMs < beforeMs) this.#drop(podId)
  }

  /** Starts all timeouts again: this broker could not read reports. */
  resetDeadlines(): void {
    for (const pod of this.#pods.values()) pod.reportedMs = this.#setup.clock.monotonicMs()
  }

  clear(): void {
    for (const podId of [...this.#pods.keys()]) this.#drop(podId)
  }

  #drop(podId: string): void {
    this.#pods.get(podId)?.cursor.close()
    this.#pods.delete(podId)
  }
}
