import type { Clock } from '@tollway/chassis/clock.ts'
import { type AnimationIds, matchesIds } from '../wire/animation-ids.ts'
import { ByteBudget, defaultMaxKeptBytes } from './byte-budget.ts'
import { EndedRequests } from './ended-requests.ts'
import { Interruptions } from './interruptions.ts'
import { MemoryRequest } from './memory-request.ts'
import { idsInUse, runGone, shutsDown, wasInterrupted } from './refusals.ts'
import type { Repeat } from './repeat.ts'
import {
  cameBack,
  type EndListener,
  interruptedStatus,
  type LoggedRequest,
  type Opening,
  type RequestEnd,
  type RequestWriter,
  type ResumedRequest,
  type Resumption,
  type StreamLog,
  shuttingDown,
} from './stream-log.ts'

export interface MemoryLogOptions {
  readonly clock: Clock
  readonly repeat: Repeat
  /** Creates a unique key for a request. */
  readonly newKey: () => string
  /**
   * The maximum bytes of all requests, see `ByteBudget`. Ended requests may have half of it; the oldest of
   * them are forgotten first.
   */
  readonly maxKeptBytes?: number
  readonly maxEnded?: number
}

const sweepEveryMs = 250

/** The log of a single process; always healthy. */
export class MemoryLog implements StreamLog {
  readonly healthy = true
  readonly problem = ''
  readonly budget: ByteBudget
  readonly #options: MemoryLogOptions
  /** The running requests by their three ids, which only one of them has. */
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
    this.#ended = new EndedRequests({
      nowMs: clock.nowMs,
      maxBytes: this.budget.limit / 2,
      ...(maxEnded === undefined ? {} : { maxRequests: maxEnded }),
    })
    this.#stopSweep = repeat(sweepEveryMs, () => this.#sweep())
  }

  async open(opening: Opening): Promise<RequestWriter> {
    const { ids } = opening
    if (this.#closed) throw shutsDown()
    if (this.#running.has(idsKey(ids))) throw idsInUse()
    if (this.#interruptions.has(ids)) throw wasInterrupted()
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
    request.close(cameBack)
    return true
  }

  async resume(resumption: Resumption): Promise<ResumedRequest> {
    const request = this.#all.get(resumption.run)
    if (request === undefined) throw runGone(resumption.run)
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
    for (const request of [...this.#running.values()]) request.close(shuttingDown)
  }

  #sweep(): void {
    this.#ended.sweep()
    for (const request of [...this.#running.values()]) request.sweep()
    this.#interruptions.sweep()
  }

  /** Keeps an ended request for late consumers, and reports its end. */
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

const idsKey = ({ streamId, requestId, targetObjectId }: AnimationIds) =>
  JSON.stringify([streamId, requestId, targetObjectId])
