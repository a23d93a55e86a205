import { Ring, type RingWatch } from '../ring.ts'
import {
  describeEnd,
  endedRejection,
  LogRejection,
  messagesExpiredRejection,
  type RequestEnd,
  type RingCursor,
  type RingReader,
  unreadableRejection,
} from '../stream-log.ts'
import { type DirectoryEntry, decodeEnd, endedEntry } from './directory-entry.ts'
import { entryId, parsePosition } from './keys.ts'
import type { PositionReports, ReportedReaders } from './position-reports.ts'
import { type FollowedStream, type ReadLoop, type StreamEntries, takeAll } from './read-loop.ts'
import type { RedisLogSetup } from './setup.ts'

export interface RemoteRequestContext {
  readonly setup: RedisLogSetup
  readonly loop: ReadLoop
  readonly reports: PositionReports
  /** Called with the end of a request that was read. */
  readonly apply: (entry: DirectoryEntry) => void
}

/** The limit of entries in one reply. */
const loadEntries = 256
/** Readers report to the producer's broker each time they have read this share of the limit of the ring. */
const progressShare = 1 / 4

/**
 * A request whose producer is at another broker: a ring is loaded from the stream in Redis, and then follows
 * the stream. When the ring has no readers any more, this object is closed, and the next reader needs a new
 * one.
 */
export class RemoteRequest implements FollowedStream, ReportedReaders {
  readonly streamKey: string
  readonly #context: RemoteRequestContext
  readonly #loaded: Promise<void>
  #entry: DirectoryEntry
  /** Undefined until entries are loaded, and after `closed`. */
  #ring: Ring | undefined
  /** The number of readers that wait for the ring, and how many of them will hold entries. */
  #expected = 0
  #expectedHolders = 0
  #readsToEnd = false
  #closed = false
  /** The error for readers that come after the request was closed. */
  #rejection: LogRejection | undefined

  /**
   * @param ring the ring of a producer that was at this broker; if undefined, entries are loaded from Redis
   */
  constructor(context: RemoteRequestContext, entry: DirectoryEntry, ring?: Ring) {
    this.streamKey = context.setup.keys.entries(entry.key)
    this.#context = context
    this.#entry = entry
    this.#loaded = ring === undefined ? this.#load() : Promise.resolve()
    if (ring === undefined) return
    ring.watch(this.#watch())
    this.#ring = ring
    this.#follow(ring)
  }

  get entry(): DirectoryEntry {
    return this.#entry
  }

  get closed(): boolean {
    return this.#closed
  }

  /** Whether readers still wait for entries or the end. */
  get isReading(): boolean {
    return !this.#closed && this.#ring?.end === undefined
  }

  /** The position of the slowest reader that holds entries, if one does; undefined after the end. */
  get slowestPosition(): number | undefined {
    if (this.#closed || this.#ring?.end !== undefined) return undefined
    return this.#expectedHolders > 0 ? 0 : this.#ring?.slowestPosition
  }

  get after(): string {
    return entryId(this.#entry.epoch, (this.#ring?.nextPosition ?? 1) - 1)
  }

  get wanted(): boolean {
    const ring = this.#ring
    return ring !== undefined && ring.end === undefined && (this.#readsToEnd || !ring.full)
  }

  take(id: string, [name, value]: readonly Uint8Array[]): void {
    const ring = this.#ring
    if (ring === undefined || value === undefined) return
    const position = parsePosition(id)
    if (position === undefined) {
      const stored = decodeEnd(String(value))
      ring.finish(stored.end)
      this.#context.apply(endedEntry(this.#entry, stored, this.#context.setup.clock.nowMs()))
    } else if (position >= ring.nextPosition) {
      // Entries that Redis has lost or dropped are a gap.
      ring.skipTo(position)
      ring.append(value, Number(String(name)))
    }
  }

  /** Rejects as `LoggedRequest.read` does. */
  async read(reader: RingReader): Promise<RingCursor> {
    return await this.#use(reader.waiting === true ? 0 : 1, ring => ring.read(reader))
  }

  /**
   * Returns the ring with all entries, for a producer that continues here, and closes. Rejects as `read`
   * does, and with a `LogRejection` `ended`.
   */
  async handOver(): Promise<Ring> {
    return await this.#use(0, async ring => {
      await this.#readRest()
      if (this.#closed) throw this.#rejection
      if (ring.end !== undefined) throw endedRejection(describeEnd(ring.end))
      if (this.#readsToEnd) throw messagesExpiredRejection()
      ring.watch(undefined)
      this.#ring = undefined
      this.#drop()
      return ring
    })
  }

  /** To be called when the producer has moved to another broker. */
  moved(entry: DirectoryEntry): void {
    this.#entry = entry
  }

  /** The request has ended and Redis will forget it: reads the rest even for slow readers. */
  readToEnd(): void {
    const wasWanted = this.wanted
    this.#readsToEnd = true
    if (this.wanted && !wasWanted) this.#context.loop.interrupt()
  }

  /**
   * Ends the request here: Redis will provide no more entries. Readers with a ring get this end; readers that
   * wait for the ring are rejected.
   */
  close(end: RequestEnd, rejection: LogRejection): void {
    this.#rejection = rejection
    this.#ring?.finish(end)
    this.#drop()
  }

  sweep(): void {
    this.#ring?.sweep()
  }

  /**
   * Rejects with a `LogRejection` `expired` without a header in Redis, and with another error if Redis does
   * not answer.
   */
  async #load(): Promise<void> {
    const { setup } = this.#context
    const { key, epoch, openedMs, limits } = this.#entry
    const [header, entries] = await Promise.all([
      setup.commands.call('GET', setup.keys.header(key)),
      this.#entriesAfter(entryId(epoch, 0)),
    ])
    if (this.#closed) return
    if (!(header instanceof Uint8Array)) throw messagesExpiredRejection()
    const { clock, budget } = setup
    const ring = new Ring({ header: new Uint8Array(header), openedMs, limits, clock, budget })
    ring.watch(this.#watch())
    this.#ring = ring
    takeAll(this, entries)
    if (entries.length === loadEntries) await this.#readRest()
    if (!this.#closed) this.#follow(ring)
  }

  /** Reads the remaining entries even for slow readers. Rejects if Redis does not answer. */
  async #readRest(): Promise<void> {
    while (this.#ring !== undefined && this.#ring.end === undefined) {
      const entries = await this.#entriesAfter(this.after)
      takeAll(this, entries)
      if (entries.length < loadEntries) return
    }
  }

  async #entriesAfter(id: string): Promise<StreamEntries> {
    const range = ['XRANGE', this.streamKey, `(${id}`, '+', 'COUNT', loadEntries] as const
    return (await this.#context.setup.commands.call(...range)) as StreamEntries
  }

  #follow(ring: Ring): void {
    const { loop } = this.#context
    ring.onRoom(() => loop.interrupt())
    loop.follow(this)
  }

  #watch(): RingWatch {
    return {
      reportBytes: this.#entry.limits.bytes * progressShare,
      onProgress: () => this.#context.reports.update(this),
      onClosed: () => this.#dropIfUnused(),
    }
  }

  /** Runs the work when the ring is loaded. Meanwhile the request counts as used. */
  async #use<T>(holders: number, work: (ring: Ring) => T | Promise<T>): Promise<T> {
    this.#expected += 1
    this.#expectedHolders += holders
    this.#context.reports.update(this)
    try {
      await this.#loaded
      if (this.#ring === undefined) throw this.#rejection
      return await work(this.#ring)
    } catch (error) {
      throw error instanceof LogRejection ? error : unreadableRejection()
    } finally {
      this.#expected -= 1
      this.#expectedHolders -= holders
      this.#dropIfUnused()
    }
  }

  #dropIfUnused(): void {
    if (this.#expected === 0 && (this.#ring?.cursors ?? 0) === 0) this.#drop()
    else this.#context.reports.update(this)
  }

  #drop(): void {
    this.#closed = true
    this.#context.loop.unfollow(this)
    this.#ring?.release()
    this.#ring = undefined
    this.#context.reports.update(this)
  }
}
