import type { Clock } from '@tollway/chassis/clock.ts'
import type { Repeat } from '../repeat.ts'
import { type AnimationIds, matchesIds } from '../wire/animation-ids.ts'
import { ByteBudget, defaultMaxKeptBytes } from './byte-budget.ts'
import { createEndedRequests } from './ended-requests.ts'
import { createInterruptions } from './interruptions.ts'
import { Ring } from './ring.ts'
import {
  interruptedStatus,
  type LoggedRequest,
  LogRefusal,
  type Opening,
  type RequestEnd,
  type RequestWriter,
  type StreamLog,
  shuttingDownStatus,
} from './stream-log.ts'

export interface MemoryLogOptions {
  readonly clock: Clock
  readonly repeat: Repeat
  /** Makes the key of a request, unlike all before. */
  readonly newKey: () => string
  /**
   * What requests may hold together, see `ByteBudget`. Ended ones may have half of it; the oldest of them are
   * forgotten first.
   */
  readonly maxKeptBytes?: number
  readonly maxEnded?: number
}

const sweepEveryMs = 250
/** What a request takes besides its messages: measured, with what V8 lets lie for a while. */
const requestOverheadBytes = 8 * 1024

/** A request with its ring. */
interface Kept {
  readonly request: LoggedRequest
  readonly opening: Opening
  readonly ring: Ring
  onEnded: (end: RequestEnd) => void
}

/** The log of one process alone; always healthy. */
export function createMemoryLog(options: MemoryLogOptions): StreamLog {
  const { clock } = options
  /** By the three ids, which only one request has at a time. */
  const running = new Map<string, Kept>()
  const all = new Map<string, Kept>()
  const watchers = new Set<Watcher>()
  const interruptions = createInterruptions(clock)
  const budget = new ByteBudget(options.maxKeptBytes ?? defaultMaxKeptBytes)
  const ended = createEndedRequests({
    nowMs: clock.nowMs,
    maxBytes: budget.limit / 2,
    ...(options.maxEnded === undefined ? {} : { maxRequests: options.maxEnded }),
  })
  const stopSweep = options.repeat(sweepEveryMs, () => {
    ended.sweep()
    for (const { ring } of running.values()) ring.sweep()
    interruptions.sweep()
  })
  let closed = false

  function refuseUnlessWelcome({ ids }: Opening): void {
    if (closed) throw new LogRefusal('unavailable', 'the broker is shutting down')
    if (running.has(keyOf(ids))) throw new LogRefusal('exists', 'a push with the same ids is running')
    if (interruptions.has(ids)) throw new LogRefusal('interrupted', 'the request was interrupted')
  }

  function keep(opening: Opening): Kept {
    const { ids, sourceServiceId, route, traceparent, header, limits } = opening
    const openedMs = clock.nowMs()
    const ring = new Ring({ header, openedMs, limits, clock, budget })
    const request: LoggedRequest = {
      key: options.newKey(),
      ids,
      sourceServiceId,
      route,
      traceparent,
      openedMs,
      get ended() {
        return ring.end !== undefined
      },
      async read(reader) {
        if (!all.has(request.key)) throw new LogRefusal('gone', 'nothing of the request is kept any more')
        return ring.read(reader)
      },
    }
    return { request, opening, ring, onEnded: () => {} }
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
    // The producer's call is not kept with what it has sent.
    kept.ring.onRoom(() => {})
    kept.onEnded = () => {}
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
    healthy: true,
    problem: '',
    onHealth: () => () => {},
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
  readonly #ring: Ring
  readonly #clock: Clock
  readonly #finish: (end: RequestEnd) => void
  #endedBy: RequestEnd | undefined
  #room: PromiseWithResolvers<void> | undefined
  #onEnded: (end: RequestEnd) => void = () => {}

  constructor(kept: Kept, clock: Clock, finish: (end: RequestEnd) => void) {
    this.request = kept.request
    this.#ring = kept.ring
    this.#clock = clock
    this.#finish = finish
    kept.ring.onRoom(() => {
      this.#room?.resolve()
      this.#room = undefined
    })
    kept.onEnded = end => {
      this.#endedBy = end
      this.#onEnded(end)
    }
  }

  append(bytes: Uint8Array): boolean {
    return this.#ring.append(bytes, this.#clock.nowMs())
  }

  ready(): Promise<void> {
    if (!this.#ring.full) return Promise.resolve()
    this.#room ??= Promise.withResolvers()
    return this.#room.promise
  }

  get endedBy(): RequestEnd | undefined {
    return this.#endedBy
  }

  onEnded(listener: (end: RequestEnd) => void): void {
    this.#onEnded = listener
    if (this.#endedBy !== undefined) listener(this.#endedBy)
  }

  async end(how: RequestEnd): Promise<void> {
    this.#finish(how)
  }
}
