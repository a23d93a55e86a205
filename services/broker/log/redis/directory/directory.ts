import { type AnimationIds, matchesIds } from '../../../wire/animation-ids.ts'
import type { Ring } from '../../ring.ts'
import type { LoggedRequest, RingCursor, RingReader } from '../../stream-log.ts'
import type { LocalRequest } from '../producing/local-request.ts'
import type { DirectoryEntry } from './directory-entry.ts'

/** The requests that this broker knows from the directory in Redis. */
export interface Directory {
  get(key: string): KnownRequest | undefined
  /** Oldest first. */
  all(): readonly KnownRequest[]
  /** Reports the known requests, oldest first, then each new one. */
  watch(wanted: AnimationIds, onRequest: (request: LoggedRequest) => void): () => void
  /**
   * Reports a new request to the watchers, unless it ended too long ago; updates the end and the owner of a
   * known one.
   */
  learn(filed: DirectoryEntry): void
  /** Like `learn`, for a request whose producer connects to this broker. */
  host(filed: DirectoryEntry, createLocal: (request: LoggedRequest) => LocalRequest): void
  forget(key: string): void
  /** Forgets requests that ended long enough ago. */
  sweep(): void
  /** Stops all reports. */
  close(): void
}

export interface KnownRequest {
  readonly filed: DirectoryEntry
  readonly request: LoggedRequest
  /** Set while the producer is at this broker and has not ended it; after that Redis has all entries. */
  readonly local: LocalRequest | undefined
}

export interface DirectoryOptions {
  readonly nowMs: () => number
  readonly read: (key: string, reader: RingReader) => Promise<RingCursor>
  /** Called once per request, when its end becomes known. */
  readonly onEnded: (known: KnownRequest) => void
  /** The producer has continued the request at another broker. `local` is the local part of the request. */
  readonly onMoved: (filed: DirectoryEntry, local: LocalRequest | undefined) => void
  /** Called when the retention of an ended request is over, or Redis has lost it. */
  readonly onForgotten: (key: string) => void
}

interface Known extends KnownRequest {
  filed: DirectoryEntry
  local: LocalRequest | undefined
  /** The ring of a former local producer, while it has readers. */
  endedRing: Ring | undefined
  forgetAtMs: number
}

export function createDirectory(options: DirectoryOptions): Directory {
  const { nowMs, read, onEnded, onMoved, onForgotten } = options
  const requests = new Map<string, Known>()
  const watchers = new Set<(request: LoggedRequest) => void>()
  const sorted = () => [...requests.values()].sort((a, b) => a.filed.epoch - b.filed.epoch)

  function add(filed: DirectoryEntry, createLocal?: (request: LoggedRequest) => LocalRequest): void {
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

  function move(known: Known, filed: DirectoryEntry): void {
    const { local } = known
    known.filed = filed
    known.local = undefined
    onMoved(filed, local)
  }

  function end(known: Known, filed: DirectoryEntry): void {
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

function requestOf(filed: DirectoryEntry, known: () => Known, read: DirectoryOptions['read']): LoggedRequest {
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
    get end() {
      return known().filed.ended?.end ?? known().local?.ring.end
    },
    read: reader => read(key, reader),
  }
}

/** The clocks of two brokers may differ: an end cannot be in the future. */
function forgetAt({ ended, limits }: DirectoryEntry, nowMs: number): number {
  return ended === undefined ? Number.POSITIVE_INFINITY : Math.min(ended.atMs, nowMs) + limits.keepMs
}
