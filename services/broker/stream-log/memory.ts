import type { Clock } from '@tollway/chassis/clock.ts'
import { type AnimationIds, idsKey, matchesIds } from '../wire/animation-ids.ts'
import { ByteBudget, defaultMaxKeptBytes } from './byte-budget.ts'
import { EndedRequests } from './ended-requests.ts'
import type { Repeat } from './repeat.ts'
import { type ResumeTokens, useToken } from './resume-tokens.ts'
import { Ring } from './ring.ts'
import {
  describeEnd,
  duplicateIdsRejection,
  type EndListener,
  endedRejection,
  interruptedMs,
  interruptedRejection,
  interruptedStatus,
  type LoggedRequest,
  type LogWriter,
  messagesExpiredRejection,
  type Opening,
  type RequestEnd,
  type ResumedRequest,
  type Resumption,
  type RingCursor,
  type RingReader,
  restartedEnd,
  runExpiredRejection,
  type StoredProgress,
  type StreamLog,
  shutdownEnd,
  shuttingDownRejection,
} from './stream-log.ts'
import { type WritableRequest, Writer } from './writer.ts'

interface MemoryLogOptions {
  readonly clock: Clock
  readonly repeat: Repeat
  /** Returns a key, a different one each time. */
  readonly newKey: () => string
  /**
   * The limit of the bytes of all requests; see `ByteBudget`. Ended requests may have half of it; the oldest
   * are forgotten first.
   */
  readonly maxKeptBytes?: number
  readonly maxEnded?: number
}

const sweepEveryMs = 250

/** A log for a single process, which is always healthy. */
export class MemoryLog implements StreamLog {
  readonly healthy = true
  readonly problem = ''
  readonly budget: ByteBudget
  readonly #options: MemoryLogOptions
  /** The running requests by their three ids, which together are different for each request. */
  readonly #running = new Map<string, MemoryRequest>()
  readonly #all = new Map<string, MemoryRequest>()
  readonly #watchers = new Set<(request: LoggedRequest) => void>()
  readonly #endListeners = new Set<EndListener>()
  readonly #interruptions: Interruptions
  readonly #ended: EndedRequests
  readonly #stopSweep: () => void
  #closed = false

  constructor(options: MemoryLogOptions) {
    const { clock, repeat, maxKeptBytes = defaultMaxKeptBytes, maxEnded } = options
    this.#options = options
    this.budget = new ByteBudget(maxKeptBytes)
    this.#interruptions = new Interruptions(clock)
    this.#ended = new EndedRequests(clock.nowMs, this.budget.limit / 2, maxEnded)
    this.#stopSweep = repeat(sweepEveryMs, () => this.#sweep())
  }

  async open(opening: Opening): Promise<LogWriter> {
    const { ids } = opening
    if (this.#closed) throw shuttingDownRejection()
    if (this.#running.has(idsKey(ids))) throw duplicateIdsRejection()
    if (this.#interruptions.has(ids)) throw interruptedRejection()
    const request = new MemoryRequest({
      key: this.#options.newKey(),
      opening,
      clock: this.#options.clock,
      budget: this.budget,
      onEnd: (request, end) => this.#keep(request, end),
    })
    this.#running.set(idsKey(ids), request)
    this.#all.set(request.key, request)
    const writer = request.openWriter()
    for (const report of [...this.#watchers]) report(request)
    return writer
  }

  async endLost({ ids, bearerHash }: Pick<Opening, 'ids' | 'bearerHash'>): Promise<boolean> {
    const request = this.#running.get(idsKey(ids))
    if (request?.isLost !== true || request.bearerHash !== bearerHash) return false
    request.close(restartedEnd)
    return true
  }

  async resume(resumption: Resumption): Promise<ResumedRequest> {
    const request = this.#all.get(resumption.run)
    if (request === undefined) throw runExpiredRejection(resumption.run)
    return request.resume(resumption)
  }

  watch(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): () => void {
    const report = (request: LoggedRequest) => {
      if (matchesIds(wanted, request.ids)) onRequest(request)
    }
    for (const request of this.#all.values()) report(request)
    if (!this.#closed) this.#watchers.add(report)
    return () => this.#watchers.delete(report)
  }

  list(): readonly LoggedRequest[] {
    return [...this.#all.values()]
  }

  async interrupt(streamId: string, requestId: string): Promise<number> {
    const matching = [...this.#running.values()].filter(
      ({ ids }) => ids.streamId === streamId && (requestId === '' || ids.requestId === requestId),
    )
    const rejected = [requestId, ...matching.map(({ ids }) => ids.requestId)]
    for (const id of new Set(rejected)) if (id !== '') this.#interruptions.add(streamId, id)
    for (const request of matching) request.close({ how: 'interrupted', status: interruptedStatus })
    return matching.length
  }

  onHealth(): () => void {
    return () => {}
  }

  onEnd(listener: EndListener): () => void {
    this.#endListeners.add(listener)
    return () => this.#endListeners.delete(listener)
  }

  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    this.#stopSweep()
    this.#watchers.clear()
    for (const request of [...this.#running.values()]) request.close(shutdownEnd)
  }

  #sweep(): void {
    this.#ended.sweep()
    for (const request of [...this.#running.values()]) request.sweep()
    this.#interruptions.sweep()
  }

  /** Keeps an ended request for late consumers, and reports the end. */
  #keep(request: MemoryRequest, end: RequestEnd): void {
    this.#running.delete(idsKey(request.ids))
    this.#ended.add({
      bytes: request.bytes,
      untilMs: this.#options.clock.nowMs() + request.keepMs,
      forget: () => {
        this.#all.delete(request.key)
        request.forget()
      },
    })
    for (const report of this.#endListeners) report(request, end, request.progress)
  }
}

interface MemoryRequestOptions {
  readonly key: string
  readonly opening: Opening
  readonly clock: Clock
  readonly budget: ByteBudget
  /** Called at the end of the request. */
  readonly onEnd: (request: MemoryRequest, end: RequestEnd) => void
}

/** The measured memory of a request without its messages, with garbage that V8 collects late. */
const overheadBytes = 8 * 1024

/** A request with its ring. */
class MemoryRequest implements LoggedRequest, WritableRequest {
  readonly key: string
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  readonly openedMs: number
  readonly #ring: Ring
  readonly #options: Pick<MemoryRequestOptions, 'clock' | 'onEnd'>
  #opening: Opening
  #tokens: ResumeTokens | undefined
  #progress: StoredProgress
  /** Set while the producer is disconnected and may return. */
  #suspended: { readonly end: RequestEnd; readonly untilMs: number } | undefined
  /** Undefined after the end. */
  #writer: Writer | undefined
  #forgotten = false

  constructor({ key, opening, clock, budget, onEnd }: MemoryRequestOptions) {
    const { header, limits, resume, progress = {} } = opening
    this.key = key
    this.ids = opening.ids
    this.sourceServiceId = opening.sourceServiceId
    this.route = opening.route
    this.traceparent = opening.traceparent
    this.openedMs = clock.nowMs()
    this.#ring = new Ring({ header, openedMs: this.openedMs, limits, clock, budget })
    this.#options = { clock, onEnd }
    this.#opening = opening
    this.#tokens = resume && { tokenHash: resume.tokenHash, uses: 0 }
    this.#progress = progress
    this.#ring.onRoom(() => this.#writer?.notifyRoom())
  }

  get ended(): boolean {
    return this.#ring.end !== undefined
  }

  get end(): RequestEnd | undefined {
    return this.#ring.end
  }

  get keepMs(): number {
    return this.#opening.limits.keepMs
  }

  /** The memory of the request and its messages. */
  get bytes(): number {
    return overheadBytes + this.#opening.header.length + this.#ring.bytes
  }

  /** The progress after the last message. */
  get progress(): StoredProgress {
    return this.#progress
  }

  get bearerHash(): string {
    return this.#opening.bearerHash
  }

  /** Whether the producer is disconnected and may return. */
  get isLost(): boolean {
    return this.#suspended !== undefined
  }

  get mustWait(): boolean {
    return this.#ring.full
  }

  async read(reader: RingReader): Promise<RingCursor> {
    if (this.#forgotten) throw messagesExpiredRejection()
    return this.#ring.read(reader)
  }

  /** Returns the writer for a new call of the producer. The previous one ends with `continued`. */
  openWriter(): Writer {
    this.#suspended = undefined
    this.#writer?.notifyEnd({ how: 'continued' })
    this.#writer = new Writer(this, this)
    return this.#writer
  }

  /** @throws LogRejection `spent` or `forged` for an invalid token, `ended` if the request has ended */
  resume(resumption: Resumption): ResumedRequest {
    const tokens = useToken(this.#tokens, resumption)
    this.#endIfOverdue()
    if (this.end !== undefined) throw endedRejection(describeEnd(this.end))
    this.#tokens = tokens
    const { header } = this.#opening
    return { writer: this.openWriter(), header, uses: tokens.uses, progress: this.#progress }
  }

  append(bytes: Uint8Array, progress: StoredProgress | undefined): boolean {
    if (this.ended) return true
    if (progress !== undefined) this.#progress = progress
    if (this.#tokens?.previousHash !== undefined) {
      const { tokenHash, uses } = this.#tokens
      this.#tokens = { tokenHash, uses }
    }
    return this.#ring.append(bytes, this.#options.clock.nowMs())
  }

  suspend(end: RequestEnd): void {
    const untilMs = this.#options.clock.monotonicMs() + (this.#opening.resume?.graceMs ?? 0)
    this.#suspended = { end, untilMs }
  }

  /** Ends the request as its producer wants. */
  async finish(end: RequestEnd): Promise<void> {
    this.#end(end)
  }

  /** Ends the request for another reason, and notifies the producer. */
  close(end: RequestEnd): void {
    const writer = this.#writer
    this.#end(end)
    writer?.notifyEnd(end)
  }

  /** Trims the ring, and ends the request if its producer has not returned in time. */
  sweep(): void {
    this.#ring.sweep()
    this.#endIfOverdue()
  }

  /** Keeps the messages that readers hold. */
  forget(): void {
    this.#forgotten = true
    this.#ring.release()
  }

  #endIfOverdue(): void {
    if (this.#suspended === undefined) return
    const { end, untilMs } = this.#suspended
    if (this.#options.clock.monotonicMs() >= untilMs) this.close(end)
  }

  /** Ends the request, and releases what only a running request needs, such as the call of the producer. */
  #end(end: RequestEnd): void {
    if (this.ended) return
    this.#ring.finish(end)
    this.#options.onEnd(this, end)
    this.#ring.onRoom(ignore)
    this.#writer = undefined
    this.#suspended = undefined
    this.#progress = {}
    const { progress: _, ...opening } = this.#opening
    this.#opening = opening
  }
}

const ignore = () => {}

/** The most interruptions; beyond this number the oldest are forgotten. */
const maxInterruptions = 10_000

/** The ids of interrupted requests, whose pushes are rejected for `interruptedMs`. */
class Interruptions {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  /** When pushes of each request are accepted again, the soonest first. */
  readonly #until = new Map<string, number>()

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  add(streamId: string, requestId: string): void {
    const key = toInterruptionKey(streamId, requestId)
    this.#until.delete(key)
    this.#until.set(key, this.#clock.monotonicMs() + interruptedMs)
    this.sweep()
  }

  has({ streamId, requestId }: AnimationIds): boolean {
    return (this.#until.get(toInterruptionKey(streamId, requestId)) ?? 0) > this.#clock.monotonicMs()
  }

  sweep(): void {
    const nowMs = this.#clock.monotonicMs()
    for (const [key, untilMs] of this.#until) {
      if (untilMs > nowMs && this.#until.size <= maxInterruptions) return
      this.#until.delete(key)
    }
  }
}

const toInterruptionKey = (streamId: string, requestId: string) => JSON.stringify([streamId, requestId])
