import { type AnimationIds, matchesIds } from '../../wire/animation-ids.ts'
import type { Ring } from '../ring.ts'
import type { LoggedRequest, RingCursor, RingReader } from '../stream-log.ts'
import type { FiledRequest } from './filed-request.ts'
import type { LocalRequest } from './local-request.ts'

/** The requests that this broker knows of, as the directory in Redis has told them. */
export interface Directory {
  get(key: string): KnownRequest | undefined
  /** Oldest first. */
  all(): readonly KnownRequest[]
  /** Requests that are known are told oldest first, then each that becomes known. */
  watch(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): () => void
  /**
   * A request that was not known is told to those who watch, unless it ended too long ago; of a known one
   * the end and a new owner are news.
   */
  learn(filed: FiledRequest): void
  /** The same of a request whose producer comes to this broker. */
  host(filed: FiledRequest, createLocal: (request: LoggedRequest) => LocalRequest): void
  forget(key: string): void
  /** Forgets those that ended long enough ago. */
  sweep(): void
  /** Nothing is told any more. */
  close(): void
}

export interface KnownRequest {
  readonly filed: FiledRequest
  readonly request: LoggedRequest
  /** While the producer is here and has not ended it; then Redis has all of it. */
  readonly local: LocalRequest | undefined
}

export interface DirectoryOptions {
  readonly nowMs: () => number
  readonly read: (key: string, reader: RingReader) => Promise<RingCursor>
  /** Called once a request, when it becomes known that it has ended. */
  readonly onEnded: (known: KnownRequest) => void
  /** The producer has continued the request at another broker. `local` is what was here of it. */
  readonly onMoved: (filed: FiledRequest, local: LocalRequest | undefined) => void
  /** Called when the time is over for which an ended request is kept, or Redis has lost it. */
  readonly onForgotten: (key: string) => void
}

interface Known extends KnownRequest {
  filed: FiledRequest
  local: LocalRequest | undefined
  /** The ring of a producer that was here, while it has readers. */
  endedRing: Ring | undefined
  forgetAtMs: number
}

export function createDirectory(options: DirectoryOptions): Directory {
  const { nowMs, read, onEnded, onMoved, onForgotten } = options
  const requests = new Map<string, Known>()
  const watchers = new Set<(request: LoggedRequest) => void>()
  const sorted = () => [...requests.values()].sort((a, b) => a.filed.epoch - b.filed.epoch)

  function add(filed: FiledRequest, createLocal?: (request: LoggedRequest) => LocalRequest): void {
    const forgetAtMs = forgetAt(filed, nowMs())
    if (forgetAtMs <= nowMs()) return
    const request = requestOf(filed, () => known, read)
    const known: Known = { filed, request, local: undefined, endedRing: undefined, forgetAtMs }
    known.local = createLocal?.(request)
    requests.set(filed.key, known)
    for (const tell of [...watchers]) tell(request)
  }

  function forget(key: string, { local, endedRing }: Known): void {
    requests.delete(key)
    endedRing?.release()
    local?.ring.release()
    onForgotten(key)
  }

  function move(known: Known, filed: FiledRequest): void {
    const { local } = known
    known.filed = filed
    known.local = undefined
    onMoved(filed, local)
  }

  function end(known: Known, filed: FiledRequest): void {
    known.filed = filed
    known.forgetAtMs = forgetAt(filed, nowMs())
    onEnded(known)
    const ring = known.local?.ring
    known.local = undefined
    if (ring !== undefined && ring.cursors > 0) known.endedRing = ring
    else ring?.release()
  }

  return {
    get: key => requests.get(key),
    all: sorted,
    watch(wanted, onRequest) {
      const tell = (request: LoggedRequest) => {
        if (matchesIds(wanted, request.ids)) onRequest(request)
      }
      for (const { request } of sorted()) tell(request)
      watchers.add(tell)
      return () => watchers.delete(tell)
    },
    learn(filed) {
      const known = requests.get(filed.key)
      if (known === undefined) add(filed)
      else if (known.filed.ended !== undefined) return
      else if (filed.ended !== undefined) end(known, filed)
      else if (filed.owner > known.filed.owner) move(known, filed)
    },
    host(filed, createLocal) {
      const known = requests.get(filed.key)
      if (known === undefined) return add(filed, createLocal)
      known.filed = filed
      known.local = createLocal(known.request)
    },
    forget(key) {
      const known = requests.get(key)
      if (known !== undefined) forget(key, known)
    },
    sweep() {
      for (const [key, known] of requests) if (known.forgetAtMs <= nowMs()) forget(key, known)
    },
    close: () => watchers.clear(),
  }
}

function requestOf(filed: FiledRequest, known: () => Known, read: DirectoryOptions['read']): LoggedRequest {
  const { key, ids, sourceServiceId, route, traceparent, openedMs } = filed
  return {
    key,
    ids,
    sourceServiceId,
    route,
    traceparent,
    openedMs,
    get ended() {
      return known().filed.ended !== undefined || known().local?.ring.end !== undefined
    },
    read: reader => read(key, reader),
  }
}

/** The clocks of two brokers may differ: an end cannot lie ahead. */
function forgetAt({ ended, limits }: FiledRequest, nowMs: number): number {
  return ended === undefined ? Number.POSITIVE_INFINITY : Math.min(ended.atMs, nowMs) + limits.keepMs
}
