import type { AnimationIds } from '../../wire/animation-ids.ts'
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

export interface Hosted {
  readonly header: Uint8Array
  readonly progress: StoredProgress
  readonly uses: number
}

/** The end of a request as this broker has learned it. */
interface AppliedEnd {
  readonly end: RequestEnd
  /** The progress after the last entry; undefined if the producer was not here. */
  readonly progress: StoredProgress | undefined
  /** The bytes in Redis; 0 if the producer was not here. */
  readonly storedBytes: number
}

/**
 * A request of the directory. While its producer is here, its messages are in the ring of a `LocalRequest`;
 * while only readers are here, in the ring of a `RemoteRequest`.
 *
 * The directory passes changes to the request, which passes them to these parts. A part that reads the end in
 * Redis reports it to the directory, and never calls the request.
 */
export class SharedRequest implements LoggedRequest {
  readonly key: string
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  readonly openedMs: number
  readonly #context: RemoteRequestContext
  #entry: DirectoryEntry
  /** Set while the producer is here and the request runs. After the end, Redis has all messages. */
  #local: LocalRequest | undefined
  #remote: RemoteRequest | undefined
  /** The ring of a producer that was here, after the end, while it has readers. */
  #endedRing: Ring | undefined
  #forgetAtMs: number
  #forgotten = false
  /** Since when this broker is the owner in Redis without the producer, in monotonic milliseconds. */
  #unhostedSinceMs: number | undefined

  constructor(context: RemoteRequestContext, entry: DirectoryEntry) {
    this.key = entry.key
    this.ids = entry.ids
    this.sourceServiceId = entry.sourceServiceId
    this.route = entry.route
    this.traceparent = entry.traceparent
    this.openedMs = entry.openedMs
    this.#context = context
    this.#entry = entry
    this.#forgetAtMs = findForgetTime(entry, context.setup.clock.nowMs())
  }

  get entry(): DirectoryEntry {
    return this.#entry
  }

  get ended(): boolean {
    return this.end !== undefined
  }

  get end(): RequestEnd | undefined {
    return this.#entry.ended?.end ?? this.#local?.ring.end
  }

  /**
   * When an ended request is forgotten, in milliseconds since the epoch. Readers that wait for Redis get
   * `endGraceMs` more, as long as Redis keeps the messages.
   */
  get forgetAtMs(): number {
    return this.#forgetAtMs + (this.#remote?.isReading === true ? endGraceMs : 0)
  }

  /** Set while the producer is here and the request runs. */
  get running(): LocalRequest | undefined {
    return this.#local?.over === false ? this.#local : undefined
  }

  async read(reader: RingReader): Promise<RingCursor> {
    if (this.#forgotten) throw messagesExpiredRejection()
    return this.#local?.ring.read(reader) ?? (await this.#openRemote().read(reader))
  }

  /** Begins or continues the request here. */
  host(entry: DirectoryEntry, hosted: Hosted & { readonly ring?: Ring }): LogWriter {
    const { setup, apply } = this.#context
    this.#entry = entry
    this.#unhostedSinceMs = undefined
    this.#local?.ring.release()
    this.#local = new LocalRequest({ ...hosted, setup, entry, request: this, apply })
    return this.#local.writer
  }

  /**
   * Continues the request here, since `entry` has this broker as the owner. Rejects as `StreamLog.resume`
   * does.
   */
  async takeOver(entry: DirectoryEntry, hosted: Hosted): Promise<LogWriter> {
    const ring = await this.#openRemote().handOver()
    return this.host(entry, { ...hosted, ring })
  }

  /** Applies a newer entry, with another owner or the end. Returns the end if no earlier entry had it. */
  update(entry: DirectoryEntry): AppliedEnd | undefined {
    if (this.#entry.ended !== undefined) return undefined
    if (entry.owner > this.#entry.owner) this.#move(entry)
    return entry.ended === undefined ? undefined : this.#end(entry, entry.ended)
  }

  /**
   * See `Directory.findUnstoredEnd`. For the grace period after a continuation whose reply from Redis may be
   * lost, returns undefined: the producer may try again.
   */
  findUnstoredEnd(): RequestEnd | undefined {
    if (this.#local !== undefined) return this.#local.unstoredEnd
    const nowMs = this.#context.setup.clock.monotonicMs()
    this.#unhostedSinceMs ??= nowMs
    return nowMs - this.#unhostedSinceMs < this.#entry.graceMs ? undefined : logUnavailableEnd
  }

  /** Closes a request that Redis has lost. */
  discardLost(): Omit<AppliedEnd, 'storedBytes'> {
    const { unstoredEnd: end = dataLostEnd, progress } = this.#local ?? {}
    this.#local?.close(dataLostEnd)
    this.forget()
    return { end, progress }
  }

  /**
   * Keeps only the messages that readers hold. A reader that has not received all messages from Redis gets an
   * error at the end.
   */
  forget(): void {
    this.#forgotten = true
    this.#endedRing?.release()
    this.#local?.ring.release()
    this.#remote?.close(dataLostEnd, messagesExpiredRejection())
  }

  tick(): void {
    this.running?.tick()
    this.#remote?.sweep()
  }

  /** Closes another broker's request to readers: Redis is unavailable. */
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
    // A ring with an end cannot take the messages after the continuation.
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
 * Returns when the request is to be forgotten. The clock of the ending broker may be ahead: an end in the
 * future counts as now.
 */
function findForgetTime({ ended, limits }: DirectoryEntry, nowMs: number): number {
  return ended === undefined ? Number.POSITIVE_INFINITY : Math.min(ended.atMs, nowMs) + limits.keepMs
}
