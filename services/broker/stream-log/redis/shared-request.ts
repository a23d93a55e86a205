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

/** What is needed to begin or continue a request whose producer is at this broker. */
export interface Hosted {
  readonly header: Uint8Array
  readonly progress: StoredProgress
  /** How often the request was continued. */
  readonly uses: number
}

/** The end of a request, as this broker has learned it. */
interface AppliedEnd {
  readonly end: RequestEnd
  /** The progress after the last entry; undefined if the producer was not at this broker. */
  readonly progress: StoredProgress | undefined
  /** The bytes that Redis stores of the request; 0 if the producer was not at this broker. */
  readonly storedBytes: number
}

/**
 * A request of the directory in Redis. Its messages are in a ring while its producer is at this broker
 * (`LocalRequest`), or while it has readers at this broker (`RemoteRequest`).
 *
 * The directory passes each change of the directory entry to the request, which passes it to these parts. A
 * part that reads the end in Redis reports it to the directory, and never calls the request.
 */
export class SharedRequest implements LoggedRequest {
  readonly #context: RemoteRequestContext
  #entry: DirectoryEntry
  /**
   * Set while the producer is at this broker and the request has not ended. After the end, Redis has all
   * messages.
   */
  #local: LocalRequest | undefined
  #remote: RemoteRequest | undefined
  /**
   * The ring of a producer that was at this broker, after the end of the request, while the ring has readers.
   */
  #endedRing: Ring | undefined
  #forgetAtMs: number
  #forgotten = false
  /**
   * Since when this broker has been the owner in Redis although the producer is not here, by the monotonic
   * clock.
   */
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
   * When the request, after its end, is to be forgotten, in milliseconds since the epoch. Readers that still
   * wait for messages from Redis get `endGraceMs` more, as long as Redis keeps them.
   */
  get forgetAtMs(): number {
    return this.#forgetAtMs + (this.#remote?.isReading === true ? endGraceMs : 0)
  }

  /** The part with the producer, while the producer is at this broker and the request is running. */
  get running(): LocalRequest | undefined {
    return this.#local?.over === false ? this.#local : undefined
  }

  async read(reader: RingReader): Promise<RingCursor> {
    if (this.#forgotten) throw messagesExpiredRejection()
    return this.#local?.ring.read(reader) ?? (await this.#openRemote().read(reader))
  }

  /** Begins or continues the request at this broker. Returns the new writer. */
  host(entry: DirectoryEntry, hosted: Hosted & { readonly ring?: Ring }): LogWriter {
    const { setup, apply } = this.#context
    this.#entry = entry
    this.#unhostedSinceMs = undefined
    this.#local?.ring.release()
    this.#local = new LocalRequest({ ...hosted, setup, entry, request: this, apply })
    return this.#local.writer
  }

  /**
   * Continues the request at this broker, which is the owner in `entry`. Rejects with a `LogRejection` as
   * `StreamLog.resume` does.
   */
  async takeOver(entry: DirectoryEntry, hosted: Hosted): Promise<LogWriter> {
    const ring = await this.#openRemote().handOver()
    return this.host(entry, { ...hosted, ring })
  }

  /**
   * Takes a newer entry of the directory: it has another owner, or the end. Returns the end if no earlier
   * entry had it.
   */
  update(entry: DirectoryEntry): AppliedEnd | undefined {
    if (this.#entry.ended !== undefined) return undefined
    if (entry.owner > this.#entry.owner) this.#move(entry)
    return entry.ended === undefined ? undefined : this.#end(entry, entry.ended)
  }

  /**
   * Returns the end to store in Redis for a request that is running there, with this broker as its owner, but
   * is no longer running here. Undefined if it is running here. Also undefined for the grace period if it is
   * not: Redis may have stored a continuation here whose reply was lost, and the producer may try again.
   */
  findUnstoredEnd(): RequestEnd | undefined {
    if (this.#local !== undefined) return this.#local.unstoredEnd
    const nowMs = this.#context.setup.clock.monotonicMs()
    this.#unhostedSinceMs ??= nowMs
    return nowMs - this.#unhostedSinceMs < this.#entry.graceMs ? undefined : logUnavailableEnd
  }

  /** Ends and forgets the request, because Redis has lost it. */
  discardLost(): Omit<AppliedEnd, 'storedBytes'> {
    const { unstoredEnd: end = dataLostEnd, progress } = this.#local ?? {}
    this.#local?.close(dataLostEnd)
    this.forget()
    return { end, progress }
  }

  /**
   * Releases the messages, except those that readers hold. For a reader that has not received all messages
   * from Redis, the request ends with an error.
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

  /** Ends the reading of another broker's request, because Redis is unavailable. */
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
    // A ring in which this broker has ended the request cannot take the messages after the continuation.
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

/**
 * Returns when the request is to be forgotten. The clock of the broker that ended it may be ahead: an end in
 * the future counts as now.
 */
function findForgetTime({ ended, limits }: DirectoryEntry, nowMs: number): number {
  return ended === undefined ? Number.POSITIVE_INFINITY : Math.min(ended.atMs, nowMs) + limits.keepMs
}
