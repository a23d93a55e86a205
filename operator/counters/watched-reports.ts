import { Subscribe_What as What } from '@tollway/proto/tollway/operator/v1/counters'
import { nextId } from '../xds/sessions/ask-processes.ts'
import { QueryError } from '../xds/sessions/query-error.ts'
import type { SessionTable } from '../xds/sessions/session-table.ts'
import { enforcing, type ProcessSession } from './process-session.ts'
import type { Report, Request } from './session-codec.ts'

/** The subject of a watch. Equal watches share one subscription at the processes. */
export interface WatchKey {
  readonly what: 'series' | 'top' | 'tap'
  readonly domain: string
  readonly rule: string
  readonly byRefused: boolean
}

export type OnWatched = (session: ProcessSession, report: Report) => void

/**
 * The most decisions of a tap that reach its readers in a second, of all processes together: users cannot
 * read more, and each decision is sent to each reader.
 */
const maxTappedPerSecond = 500

/** Returns the most decisions of one process. */
export function tapShareOf(sessions: readonly ProcessSession[], domain: string): number {
  const processes = enforcing(sessions, domain).length
  return Math.max(1, Math.floor(maxTappedPerSecond / Math.max(1, processes)))
}

/** Subscribes to all processes, also to those that connect later, for as long as there is a listener. */
export interface WatchedReports {
  /**
   * Calls the listener with each report until the returned function is called.
   *
   * @throws QueryError `too-many`
   */
  watch(key: WatchKey, listener: OnWatched): () => void
  close(): void
}

const ttlMs = 30_000
const renewMs = 10_000
/** The most different watches. A process runs 200 subscriptions at most. */
const maxWatches = 200

const kinds = { series: What.SERIES, top: What.TOP, tap: What.TAP } as const

interface Watch {
  readonly id: bigint
  readonly request: () => Request
  readonly listeners: Set<OnWatched>
  readonly stops: Map<ProcessSession, () => void>
}

export function createWatchedReports(
  table: Pick<SessionTable<ProcessSession>, 'sessions' | 'onOpen'>,
): WatchedReports {
  const watches = new Map<string, Watch>()
  let timer: NodeJS.Timeout | undefined

  function subscribe(watch: Watch, session: ProcessSession): void {
    const stop = session.follow(watch.id, watch.request(), report => {
      if (report === undefined) watch.stops.delete(session)
      else for (const listener of watch.listeners) listener(session, report)
    })
    watch.stops.set(session, stop)
  }

  function renew(): void {
    for (const { request, stops } of watches.values()) {
      const renewal = request()
      for (const session of stops.keys()) session.send(renewal)
    }
  }

  function begin(name: string, { what, ...key }: WatchKey): Watch {
    if (watches.size >= maxWatches) {
      throw new QueryError('too-many', `there are ${maxWatches} subscriptions already`)
    }
    const id = nextId()
    const maxTapped = () => (what === 'tap' ? tapShareOf(table.sessions(), key.domain) : 0)
    const request = (): Request => ({
      case: 'subscribe',
      value: { id, what: kinds[what], ...key, ttlMs, maxTapped: maxTapped() },
    })
    const watch: Watch = { id, request, listeners: new Set(), stops: new Map() }
    watches.set(name, watch)
    for (const session of table.sessions()) subscribe(watch, session)
    timer ??= setInterval(renew, renewMs).unref()
    return watch
  }

  function end(name: string, { id, stops }: Watch): void {
    watches.delete(name)
    for (const [session, stop] of stops) {
      stop()
      session.send({ case: 'unsubscribe', value: { id } })
    }
    if (watches.size > 0) return
    clearInterval(timer)
    timer = undefined
  }

  table.onOpen(session => {
    for (const watch of watches.values()) subscribe(watch, session)
  })

  return {
    watch(key, listener) {
      const name = JSON.stringify([key.what, key.domain, key.rule, key.byRefused])
      const watch = watches.get(name) ?? begin(name, key)
      watch.listeners.add(listener)
      return () => {
        if (watch.listeners.delete(listener) && watch.listeners.size === 0) end(name, watch)
      }
    },
    close() {
      for (const [name, watch] of [...watches]) end(name, watch)
    },
  }
}
