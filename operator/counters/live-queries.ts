import type { Clock } from '@tollway/chassis/clock.ts'
import { createWakeablePause } from '@tollway/chassis/wakeable-pause.ts'
import { QueryError } from '../xds/sessions/query-error.ts'
import { sessionsOf } from './counter-queries.ts'
import { noHits, type SeriesPoint, type TapBatch, type TappedDecision, type Watched } from './pod-sessions.ts'
import { enforcing, hashesValues, type ProcessSession } from './process-session.ts'
import { tapShareOf, type WatchedReports } from './watched-reports.ts'

interface LiveParts {
  readonly sessions: () => readonly ProcessSession[]
  readonly reports: WatchedReports
  readonly clock: Clock
}

const intervalMs = 1_000
/** A reader that is slower gets the newest decisions, and the number of the others. */
const maxTapped = 1_000

/** The reports of many processes are one batch: each batch is sent to each reader. */
const gatherMs = 100

/** A process reports each second; one that is late is not waited for longer. */
const maxWaitMs = 1_250

/** Yields the sum of the reports of each second, as soon as all processes of the domain have reported. */
export async function* watchSeries(
  { sessions, reports, clock }: LiveParts,
  { domain, rule = '' }: Watched,
  signal: AbortSignal,
): AsyncGenerator<SeriesPoint> {
  sessionsOf(sessions(), domain)
  let connected = enforcing(sessions(), domain).length
  let sum = noHits()
  let reported = new Set<ProcessSession>()
  const pause = createWakeablePause()
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
      sum = noHits()
      reported = new Set()
      connected = enforcing(sessions(), domain).length
    }
  } finally {
    stop()
  }
}

/** Yields the sampled decisions of the last 0.1 s, and an empty batch after a second without any. */
export async function* watchTap(
  { sessions, reports }: LiveParts,
  { domain, rule = '' }: Watched,
  signal: AbortSignal,
): AsyncGenerator<TapBatch> {
  if (!sessionsOf(sessions(), domain).some(({ identity }) => identity.features.includes('tap'))) {
    throw new QueryError('switched-off', 'DECISION_TAP of the rate limit processes does not allow it')
  }
  // Processes of earlier versions send more than the share for which the subscription asks.
  let share = tapShareOf(sessions(), domain)
  let decisions: TappedDecision[] = []
  let skipped = 0
  let hashed = false
  const pause = createWakeablePause()
  const gathering = createWakeablePause()
  const stop = reports.watch({ what: 'tap', domain, rule, byRefused: false }, (session, report) => {
    if (report.case !== 'tap') return
    const { pod } = session.identity
    const wasEmpty = decisions.length === 0
    hashed ||= hashesValues(session)
    const shown = spread(report.value.decisions, share)
    skipped += report.value.decisions.length - shown.length
    for (const { atMs, hits, limit, remaining, entries, rule, over, reason } of shown) {
      decisions.push({
        ...{ pod, rule, over, reason, atMs: Number(atMs), hits: Number(hits) },
        ...{ limit: Number(limit), remaining: Number(remaining) },
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
      share = tapShareOf(sessions(), domain)
      yield batch
    }
  } finally {
    stop()
  }
}

/** Returns at most `count` items, at equal distances. */
function spread<T>(items: readonly T[], count: number): readonly T[] {
  if (items.length <= count) return items
  return items.filter(
    (_, index) =>
      Math.floor((index * count) / items.length) !== Math.floor(((index - 1) * count) / items.length),
  )
}
