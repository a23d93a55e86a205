import type { Clock } from '@tollway/chassis/clock.ts'
import { WakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { Subscribe_What as What } from '@tollway/proto/tollway/operator/v1/counters'
import { nextRequestId } from '../pods/ask-processes.ts'
import { QueryError } from '../pods/query-error.ts'
import type { SessionTable } from '../pods/session-table.ts'
import { requireSessions } from './counter-queries.ts'
import {
  type SeriesPoint,
  type TapBatch,
  type TappedDecision,
  type Watched,
  zeroHits,
} from './pod-sessions.ts'
import {
  hashesValues,
  type ProcessSession,
  type ProcessSessionReport,
  type ProcessSessionRequest,
  sessionsEnforcing,
} from './process-session.ts'

/** The subject of a watch. Equal watches share one subscription at the processes. */
interface WatchKey {
  readonly what: 'series' | 'top' | 'tap'
  readonly domain: string
  readonly rule: string
  readonly byRefused: boolean
}

type OnWatched = (session: ProcessSession, report: ProcessSessionReport) => void

/**
 * At most this many decisions of a tap are sent to its readers per second, from all processes together: users
 * cannot read more, and each decision is sent to each reader.
 */
const maxTappedPerSecond = 500

/** Returns the share of one process in `maxTappedPerSecond`, at least 1 decision per second. */
function tapShare(sessions: readonly ProcessSession[], domain: string): number {
  const processes = sessionsEnforcing(sessions, domain).length
  return Math.max(1, Math.floor(maxTappedPerSecond / Math.max(1, processes)))
}

const ttlMs = 30_000
const renewMs = 10_000
/** At most this many different watches are open, since a process runs at most 200 subscriptions. */
const maxWatches = 200

const kinds = { series: What.SERIES, top: What.TOP, tap: What.TAP } as const

interface Watch {
  readonly id: bigint
  readonly request: () => ProcessSessionRequest
  readonly listeners: Set<OnWatched>
  readonly stops: Map<ProcessSession, () => void>
}

/** Subscribes to reports of all processes, also of those that connect later, while a watch has a listener. */
export class WatchedReports {
  readonly #table: Pick<SessionTable<ProcessSession>, 'sessions' | 'onOpen'>
  readonly #watches = new Map<string, Watch>()
  #timer: NodeJS.Timeout | undefined

  constructor(table: Pick<SessionTable<ProcessSession>, 'sessions' | 'onOpen'>) {
    this.#table = table
    table.onOpen(session => {
      for (const watch of this.#watches.values()) subscribe(watch, session)
    })
  }

  /**
   * Calls the listener with each report until the returned function is called.
   *
   * @throws QueryError `too-many`
   */
  watch(key: WatchKey, listener: OnWatched): () => void {
    const name = JSON.stringify([key.what, key.domain, key.rule, key.byRefused])
    const watch = this.#watches.get(name) ?? this.#begin(name, key)
    watch.listeners.add(listener)
    return () => {
      if (watch.listeners.delete(listener) && watch.listeners.size === 0) this.#end(name, watch)
    }
  }

  close(): void {
    for (const [name, watch] of [...this.#watches]) this.#end(name, watch)
  }

  #begin(name: string, { what, ...key }: WatchKey): Watch {
    if (this.#watches.size >= maxWatches) {
      throw new QueryError('too-many', `there are ${maxWatches} subscriptions already`)
    }
    const id = nextRequestId()
    const maxTapped = () => (what === 'tap' ? tapShare(this.#table.sessions(), key.domain) : 0)
    const request = (): ProcessSessionRequest => ({
      case: 'subscribe',
      value: { id, what: kinds[what], ...key, ttlMs, maxTapped: maxTapped() },
    })
    const watch: Watch = { id, request, listeners: new Set(), stops: new Map() }
    this.#watches.set(name, watch)
    for (const session of this.#table.sessions()) subscribe(watch, session)
    this.#timer ??= setInterval(() => this.#renew(), renewMs).unref()
    return watch
  }

  #renew(): void {
    for (const { request, stops } of this.#watches.values()) {
      const renewal = request()
      for (const session of stops.keys()) session.send(renewal)
    }
  }

  #end(name: string, { id, stops }: Watch): void {
    this.#watches.delete(name)
    for (const [session, stop] of stops) {
      stop()
      session.send({ case: 'unsubscribe', value: { id } })
    }
    if (this.#watches.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}

function subscribe(watch: Watch, session: ProcessSession): void {
  const stop = session.follow(watch.id, watch.request(), report => {
    if (report === undefined) watch.stops.delete(session)
    else for (const listener of watch.listeners) listener(session, report)
  })
  watch.stops.set(session, stop)
}

interface LiveParts {
  readonly sessions: () => readonly ProcessSession[]
  readonly reports: WatchedReports
  readonly clock: Clock
}

const intervalMs = 1_000
/** At most this many decisions wait for a slow reader. Older ones are dropped and counted as skipped. */
const maxTapped = 1_000

/**
 * How long decisions of all processes are gathered into one batch, since each batch is sent to each reader.
 */
const gatherMs = 100

/** How long a point waits for late processes. Each process reports once a second. */
const maxWaitMs = 1_250

/** Yields the sum of the reports of each second, as soon as all processes of the domain have reported. */
export async function* watchSeries(
  { sessions, reports, clock }: LiveParts,
  { domain, rule = '' }: Watched,
  signal: AbortSignal,
): AsyncGenerator<SeriesPoint> {
  requireSessions(sessions(), domain)
  let connected = sessionsEnforcing(sessions(), domain).length
  let sum = zeroHits()
  let reported = new Set<ProcessSession>()
  const pause = new WakeablePause()
  const stop = reports.watch({ what: 'series', domain, rule, byRefused: false }, (session, report) => {
    if (report.case !== 'series') return
    const { calls, allowed, refused, near, shadow } = report.value
    sum.calls += Number(calls)
    sum.allowed += Number(allowed)
    sum.refused += Number(refused)
    sum.near += Number(near)
    sum.shadow += Number(shadow)
    reported.add(session)
    if (reported.size >= connected) pause.wake()
  })
  try {
    for (;;) {
      await pause.wait(maxWaitMs, signal)
      if (signal.aborted) return
      const pods = new Set([...reported].map(({ identity }) => identity.uid))
      yield { atMs: clock.nowMs(), ...sum, pods: pods.size }
      sum = zeroHits()
      reported = new Set()
      connected = sessionsEnforcing(sessions(), domain).length
    }
  } finally {
    stop()
  }
}

/**
 * Yields a batch 0.1 s after its first sampled decision, and an empty one after a second without decisions.
 */
export async function* watchTap(
  { sessions, reports }: LiveParts,
  { domain, rule = '' }: Watched,
  signal: AbortSignal,
): AsyncGenerator<TapBatch> {
  if (!requireSessions(sessions(), domain).some(({ identity }) => identity.features.includes('tap'))) {
    throw new QueryError('switched-off', 'DECISION_TAP of the rate limit processes is off')
  }
  // Processes of earlier versions send more than the share for which the subscription asks.
  let share = tapShare(sessions(), domain)
  let decisions: TappedDecision[] = []
  let skipped = 0
  let hashed = false
  const pause = new WakeablePause()
  const gathering = new WakeablePause()
  const stop = reports.watch({ what: 'tap', domain, rule, byRefused: false }, (session, report) => {
    if (report.case !== 'tap') return
    const { pod } = session.identity
    const wasEmpty = decisions.length === 0
    hashed ||= hashesValues(session)
    const shown = spread(report.value.decisions, share)
    skipped += report.value.decisions.length - shown.length
    for (const { atMs, hits, limit, remaining, entries, rule, over, reason } of shown) {
      decisions.push({
        pod,
        rule,
        over,
        reason,
        atMs: Number(atMs),
        hits: Number(hits),
        limit: Number(limit),
        remaining: Number(remaining),
        entries: entries.map(({ key, value }) => ({ key, value })),
      })
    }
    skipped += Number(report.value.skipped)
    const surplus = decisions.length - maxTapped
    if (surplus > 0) {
      decisions = decisions.slice(surplus)
      skipped += surplus
    }
    if (wasEmpty && decisions.length > 0) pause.wake()
  })
  try {
    for (;;) {
      await pause.wait(intervalMs, signal)
      if (decisions.length > 0) await gathering.wait(gatherMs, signal)
      if (signal.aborted) return
      const batch = { decisions, skipped, hashed }
      decisions = []
      skipped = 0
      share = tapShare(sessions(), domain)
      yield batch
    }
  } finally {
    stop()
  }
}

/** Returns at most `count` items, spread evenly over the list. */
function spread<T>(items: readonly T[], count: number): readonly T[] {
  if (items.length <= count) return items
  return items.filter(
    (_, index) =>
      Math.floor((index * count) / items.length) !== Math.floor(((index - 1) * count) / items.length),
  )
}
