import type { Ring } from '../ring.ts'
import {
  type LoggedRequest,
  type LogWriter,
  messagesExpiredRejection,
  type RequestEnd,
  type RingCursor,
  type RingReader,
  type StoredProgress,
  unreadableRejection,
} from '../stream-log.ts'
import type { DirectoryEntry } from './directory-entry.ts'
import { dataLostEnd, LocalRequest, logUnavailableEnd } from './local-request.ts'
import { RemoteRequest, type RemoteRequestContext } from './remote-request.ts'
import { endGraceMs } from './setup.ts'

/** The data of a request whose producer connects to this broker. */
export interface Hosted {
  readonly header: Uint8Array
  readonly progress: StoredProgress
  /** The number of continuations. */
  readonly uses: number
}

/** The end of a request that this broker has learned. */
interface AppliedEnd {
  readonly end: RequestEnd
  /** The progress of the producer; undefined if it was not connected to this broker. */
  readonly progress: StoredProgress | undefined
  /** The bytes that Redis stores of a producer of this broker. */
  readonly storedBytes: number
}

/**
 * A request of the directory in Redis. Its messages are in a ring while its producer is at this broker
 * (`LocalRequest`), or while it has readers at this broker (`RemoteRequest`).
 *
 * The directory passes each change of the entry to the request, and the request to its parts. A part that
 * reads the end in Redis reports it to the directory, and never calls the request.
 */
export class SharedRequest implements LoggedRequest {
  readonly #context: RemoteRequestContext
  #entry: DirectoryEntry
  /** Set while the producer is at this broker and has not ended it; after that Redis has all messages. */
  #local: LocalRequest | undefined
  #remote: RemoteRequest | undefined
  /** The ring of a former local producer, while it has readers. */
  #endedRing: Ring | undefined
  #forgetAtMs: number
  #forgotten = false
  /** The time since which this broker is the owner in Redis without a producer. */
  #unhostedSinceMs: number | undefined

  constructor(context: RemoteRequestContext, entry: DirectoryEntry) {
    this.#context = context
    this.#entry = entry
    this.#forgetAtMs = findForgetTime(entry, context.setup.clock.nowMs())
  }

  get entry(): DirectoryEntry {
    return this.#entry
  }

  get key(): string {
    return this.#entry.key
  }

  get ids(): LoggedRequest['ids'] {
    return this.#entry.ids
  }

  get sourceServiceId(): string {
    return this.#entry.sourceServiceId
  }

  get route(): string {
    return this.#entry.route
  }

  get traceparent(): string {
    return this.#entry.traceparent
  }

  get openedMs(): number {
    return this.#entry.openedMs
  }

  get ended(): boolean {
    return this.end !== undefined
  }

  get end(): RequestEnd | undefined {
    return this.#entry.ended?.end ?? this.#local?.ring.end
  }

  /**
   * The time at which the retention of the ended request is over, in milliseconds since the epoch. Readers
   * that still wait for messages from Redis have as long as Redis keeps them.
   */
  get forgetAtMs(): number {
    return this.#forgetAtMs + (this.#remote?.isReading === true ? endGraceMs : 0)
  }

  /** The part with the producer, while it is running at this broker. */
  get running(): LocalRequest | undefined {
    return this.#local?.over === false ? this.#local : undefined
  }

  async read(reader: RingReader): Promise<RingCursor> {
    if (this.#forgotten) throw messagesExpiredRejection()
    return this.#local?.ring.read(reader) ?? (await this.#openRemote().read(reader))
  }

  /** Begins or continues the request at this broker. */
  host(entry: DirectoryEntry, hosted: Hosted & { readonly ring?: Ring }): LogWriter {
    const { setup, apply } = this.#context
    this.#entry = entry
    this.#unhostedSinceMs = undefined
    this.#local?.ring.release()
    this.#local = new LocalRequest({ ...hosted, setup, entry, request: this, apply })
    return this.#local.writer
  }

  /**
   * Continues the request at this broker, which has become the owner of the entry. Rejects with a
   * `LogRejection` as `StreamLog.resume` does.
   */
  async takeOver(entry: DirectoryEntry, hosted: Hosted): Promise<LogWriter> {
    const ring = await this.#openRemote().handOver()
    return this.host(entry, { ...hosted, ring })
  }

  /**
   * Takes a newer entry of the directory: another owner, or the end. Returns the end if this entry is the
   * first with it.
   */
  update(entry: DirectoryEntry): AppliedEnd | undefined {
    if (this.#entry.ended !== undefined) return undefined
    if (entry.owner > this.#entry.owner) this.#move(entry)
    return entry.ended === undefined ? undefined : this.#end(entry, entry.ended)
  }

  /**
   * Returns the end of a request that is running according to Redis with its producer at this broker;
   * undefined if it is running, or its producer may still continue it: Redis stored its last continuation,
   * but the reply was lost.
   */
  findUnstoredEnd(): RequestEnd | undefined {
    if (this.#local !== undefined) return this.#local.unstoredEnd
    const nowMs = this.#context.setup.clock.monotonicMs()
    this.#unhostedSinceMs ??= nowMs
    return nowMs - this.#unhostedSinceMs < this.#entry.graceMs ? undefined : logUnavailableEnd
  }

  /** Redis has lost the request: ends and forgets it. */
  discardLost(): Omit<AppliedEnd, 'storedBytes'> {
    const { unstoredEnd: end = dataLostEnd, progress } = this.#local ?? {}
    this.#local?.close(dataLostEnd)
    this.forget()
    return { end, progress }
  }

  /**
   * Releases the messages, except those that readers hold. A reader that has not received all messages from
   * Redis gets an error as the end.
   */
  forget(): void {
    this.#forgotten = true
    this.#endedRing?.release()
    this.#local?.ring.release()
    this.#remote?.close(dataLostEnd, messagesExpiredRejection())
  }

  /** Checks the timeouts and the budget. */
  tick(): void {
    this.running?.tick()
    this.#remote?.sweep()
  }

  /** Ends the reading from another broker, because Redis is unavailable. */
  closeRemote(): void {
    this.#remote?.close(logUnavailableEnd, unreadableRejection())
  }

  #openRemote(): RemoteRequest {
    if (this.#remote === undefined || this.#remote.closed) {
      this.#remote = new RemoteRequest(this.#context, this.#entry)
      if (this.#entry.ended !== undefined) this.#remote.readToEnd()
    }
    return this.#remote
  }

  #move(entry: DirectoryEntry): void {
    const local = this.#local
    this.#entry = entry
    this.#local = undefined
    this.#unhostedSinceMs = undefined
    if (local === undefined) {
      this.#remote?.moved(entry)
      return
    }
    local.moved()
    // A ring that this broker has ended gets no messages of the continued request.
    if (local.ring.cursors === 0 || local.ring.end !== undefined) local.ring.release()
    else this.#remote = new RemoteRequest(this.#context, entry, local.ring)
  }

  #end(entry: DirectoryEntry, { end, by = '' }: NonNullable<DirectoryEntry['ended']>): AppliedEnd {
    const local = this.#local
    this.#entry = entry
    this.#forgetAtMs = findForgetTime(entry, this.#context.setup.clock.nowMs())
    this.#local = undefined
    this.#remote?.readToEnd()
    if (local === undefined) return { end, progress: undefined, storedBytes: 0 }
    const storedBytes = local.applyEnd({ end, by })
    if (local.ring.cursors > 0) this.#endedRing = local.ring
    else local.ring.release()
    return { end, progress: local.progress, storedBytes }
  }
}

/** The clocks of two brokers may differ: an end cannot be in the future. */
function findForgetTime({ ended, limits }: DirectoryEntry, nowMs: number): number {
  return ended === undefined ? Number.POSITIVE_INFINITY : Math.min(ended.atMs, nowMs) + limits.keepMs
}
