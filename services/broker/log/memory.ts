import type { Clock } from '@tollway/chassis/clock.ts'
import { type AnimationIds, matchesIds } from '../wire/animation-ids.ts'
import { ByteBudget, defaultMaxKeptBytes } from './byte-budget.ts'
import { createEndedRequests } from './ended-requests.ts'
import { createInterruptions } from './interruptions.ts'
import type { Repeat } from './repeat.ts'
import { ended as endedRefusal, type ResumeState, runGone, useToken } from './resume-state.ts'
import { Ring } from './ring.ts'
import {
  describeEnd,
  type EndListener,
  interruptedStatus,
  type LoggedRequest,
  LogRefusal,
  type Opening,
  type Progress,
  type RequestEnd,
  type RequestWriter,
  type RingCursor,
  type RingReader,
  type StreamLog,
  shuttingDownStatus,
  type WriterEnd,
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
/** The measured memory of a request besides its messages, including garbage that V8 collects late. */
const requestOverheadBytes = 8 * 1024

/** A request with its ring. */
interface Kept {
  readonly request: LoggedRequest
  opening: Opening
  readonly ring: Ring
  onEnded: (end: WriterEnd) => void
  resume: ResumeState | undefined
  progress: Progress
  /** Set while the producer is disconnected and may return. */
  suspended: { readonly end: RequestEnd; readonly untilMs: number } | undefined
}

/** The log of a single process; always healthy. */
export function createMemoryLog(options: MemoryLogOptions): StreamLog {
  const { clock } = options
  /** By the three ids, which only one running request has. */
  const running = new Map<string, Kept>()
  const all = new Map<string, Kept>()
  const watchers = new Set<Watcher>()
  const endListeners = new Set<EndListener>()
  const interruptions = createInterruptions(clock)
  const budget = new ByteBudget(options.maxKeptBytes ?? defaultMaxKeptBytes)
  const ended = createEndedRequests({
    nowMs: clock.nowMs,
    maxBytes: budget.limit / 2,
    ...(options.maxEnded === undefined ? {} : { maxRequests: options.maxEnded }),
  })
  const stopSweep = options.repeat(sweepEveryMs, () => {
    ended.sweep()
    for (const kept of running.values()) kept.ring.sweep()
    for (const kept of [...running.values()]) endOverdue(kept)
    interruptions.sweep()
  })
  let closed = false

  function refuseUnlessWelcome({ ids }: Opening): void {
    if (closed) throw new LogRefusal('unavailable', 'the broker is shutting down')
    if (running.has(keyOf(ids))) throw new LogRefusal('exists', 'a push with the same ids is running')
    if (interruptions.has(ids)) throw new LogRefusal('interrupted', 'the request was interrupted')
  }

  function keep(opening: Opening): Kept {
    const { header, limits } = opening
    const openedMs = clock.nowMs()
    const ring = new Ring({ header, openedMs, limits, clock, budget })
    const request = new MemoryRequest(options.newKey(), opening, { ring, openedMs, all })
    const { resume, progress = {} } = opening
    const state = resume && { tokenHash: resume.tokenHash, uses: 0 }
    return { request, opening, ring, onEnded: () => {}, resume: state, progress, suspended: undefined }
  }

  function endOverdue(kept: Kept): void {
    const { suspended } = kept
    if (suspended !== undefined && clock.monotonicMs() >= suspended.untilMs) {
      finishForOthers(kept, suspended.end)
    }
  }

  function finish(kept: Kept, end: RequestEnd): void {
    if (kept.ring.end !== undefined) return
    running.delete(keyOf(kept.opening.ids))
    kept.ring.finish(end)
    ended.add({
      bytes: requestOverheadBytes + kept.opening.header.length + kept.ring.bytes,
      untilMs: clock.nowMs() + kept.opening.limits.keepMs,
      forget() {
        all.delete(kept.request.key)
        kept.ring.release()
      },
    })
    for (const report of endListeners) report(kept.request, end, kept.progress)
    releaseProducer(kept)
  }

  function finishForOthers(kept: Kept, end: RequestEnd): void {
    const { onEnded } = kept
    finish(kept, end)
    onEnded(end)
  }

  return {
    async open(opening) {
      refuseUnlessWelcome(opening)
      const kept = keep(opening)
      running.set(keyOf(opening.ids), kept)
      all.set(kept.request.key, kept)
      for (const watcher of [...watchers]) watcher.tell(kept.request)
      return new Writer(kept, clock, end => finish(kept, end))
    },
    async resume(resumption) {
      const kept = all.get(resumption.run)
      if (kept === undefined) throw runGone(resumption.run)
      const next = useToken(kept.resume, resumption)
      endOverdue(kept)
      const { end } = kept.ring
      if (end !== undefined) throw endedRefusal(describeEnd(end))
      kept.resume = next
      kept.suspended = undefined
      kept.onEnded({ how: 'continued' })
      const writer = new Writer(kept, clock, end => finish(kept, end))
      return { writer, header: kept.opening.header, uses: next.uses, progress: kept.progress }
    },
    watch(wanted, onRequest) {
      const watcher = createWatcher(wanted, onRequest)
      for (const { request } of all.values()) watcher.tell(request)
      if (!closed) watchers.add(watcher)
      return () => watchers.delete(watcher)
    },
    list: () => Array.from(all.values(), ({ request }) => request),
    async interrupt(streamId, requestId) {
      const concerned = [...running.values()].filter(
        ({ opening: { ids } }) =>
          ids.streamId === streamId && (requestId === '' || ids.requestId === requestId),
      )
      const refused = [requestId, ...concerned.map(({ opening: { ids } }) => ids.requestId)]
      for (const id of new Set(refused)) if (id !== '') interruptions.add(streamId, id)
      for (const kept of concerned) {
        finishForOthers(kept, { how: 'interrupted', status: interruptedStatus })
      }
      return concerned.length
    },
    budget,
    healthy: true,
    problem: '',
    onHealth: () => () => {},
    onEnd(listener) {
      endListeners.add(listener)
      return () => endListeners.delete(listener)
    },
    async close() {
      if (closed) return
      closed = true
      stopSweep()
      watchers.clear()
      for (const kept of [...running.values()]) {
        finishForOthers(kept, { how: 'lost', status: shuttingDownStatus })
      }
    },
  }
}

const keyOf = ({ streamId, requestId, targetObjectId }: AnimationIds) =>
  JSON.stringify([streamId, requestId, targetObjectId])

const ignore = () => {}

/**
 * Releases what only a running request needs: the producer's call, to which the callbacks refer, and the
 * progress.
 */
function releaseProducer(kept: Kept): void {
  kept.ring.onRoom(ignore)
  kept.onEnded = ignore
  kept.progress = {}
  const { progress: _, ...opening } = kept.opening
  kept.opening = opening
}

interface MemoryRequestParts {
  readonly ring: Ring
  readonly openedMs: number
  /** The requests of the log that are not forgotten. */
  readonly all: ReadonlyMap<string, unknown>
}

/**
 * A class: with accessors and methods, V8 stores an object literal as a hash table, which takes 800 bytes
 * instead of 60.
 */
class MemoryRequest implements LoggedRequest {
  readonly key: string
  readonly ids: AnimationIds
  readonly sourceServiceId: string
  readonly route: string
  readonly traceparent: string
  readonly openedMs: number
  readonly #ring: Ring
  readonly #all: ReadonlyMap<string, unknown>

  constructor(key: string, opening: Opening, { ring, openedMs, all }: MemoryRequestParts) {
    this.key = key
    this.ids = opening.ids
    this.sourceServiceId = opening.sourceServiceId
    this.route = opening.route
    this.traceparent = opening.traceparent
    this.openedMs = openedMs
    this.#ring = ring
    this.#all = all
  }

  get ended(): boolean {
    return this.#ring.end !== undefined
  }

  get end(): RequestEnd | undefined {
    return this.#ring.end
  }

  async read(reader: RingReader): Promise<RingCursor> {
    if (!this.#all.has(this.key)) throw new LogRefusal('gone', 'no message of the request is kept any more')
    return this.#ring.read(reader)
  }
}

interface Watcher {
  tell(request: LoggedRequest): void
}

function createWatcher(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): Watcher {
  return {
    tell(request) {
      if (matchesIds(wanted, request.ids)) onRequest(request)
    },
  }
}

class Writer implements RequestWriter {
  readonly request: LoggedRequest
  readonly #kept: Kept
  readonly #ring: Ring
  readonly #clock: Clock
  readonly #finish: (end: RequestEnd) => void
  #endedBy: WriterEnd | undefined
  #room: PromiseWithResolvers<void> | undefined
  #onEnded: (end: WriterEnd) => void = () => {}

  constructor(kept: Kept, clock: Clock, finish: (end: RequestEnd) => void) {
    this.request = kept.request
    this.#kept = kept
    this.#ring = kept.ring
    this.#clock = clock
    this.#finish = finish
    kept.ring.onRoom(() => {
      this.#room?.resolve()
      this.#room = undefined
    })
    kept.onEnded = end => {
      this.#endedBy = end
      this.#room?.resolve()
      this.#onEnded(end)
    }
  }

  append(bytes: Uint8Array, progress?: Progress): boolean {
    if (this.#endedBy !== undefined) return true
    const kept = this.#kept
    if (progress !== undefined) kept.progress = progress
    if (kept.resume?.previousHash !== undefined) {
      const { tokenHash, uses } = kept.resume
      kept.resume = { tokenHash, uses }
    }
    return this.#ring.append(bytes, this.#clock.nowMs())
  }

  ready(): Promise<void> {
    if (!this.#ring.full || this.#endedBy !== undefined) return Promise.resolve()
    this.#room ??= Promise.withResolvers()
    return this.#room.promise
  }

  get endedBy(): WriterEnd | undefined {
    return this.#endedBy
  }

  onEnded(listener: (end: WriterEnd) => void): void {
    this.#onEnded = listener
    if (this.#endedBy !== undefined) listener(this.#endedBy)
  }

  suspend(end: RequestEnd): void {
    const { resume } = this.#kept.opening
    if (this.#endedBy !== undefined) return
    const untilMs = this.#clock.monotonicMs() + (resume?.graceMs ?? 0)
    this.#kept.suspended = { end, untilMs }
  }

  async end(how: RequestEnd): Promise<void> {
    if (this.#endedBy === undefined) this.#finish(how)
  }
}
