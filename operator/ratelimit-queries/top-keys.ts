import type { Clock } from '@tollway/chassis/clock.ts'
import type { Top } from '@tollway/proto/tollway/operator/v1/counters'
import { requireSessions } from './counter-queries.ts'
import { podNames, uniqueNames } from './expected-pods.ts'
import type { WatchedReports } from './live-queries.ts'
import type { CounterEntry, TopKeys, TopQuery } from './pod-sessions.ts'
import { hashesValues, type ProcessSession, sessionsEnforcing } from './process-session.ts'

/** The top keys of rules, which are counted from the first query until a while after the last one. */
interface TopKeyCounts {
  query(of: TopQuery): Promise<TopKeys>
  close(): void
}

export interface TopKeyTiming {
  /** The count ends when nothing has asked for it for this long. */
  readonly keepMs: number
  /** The time in which every process reports once. */
  readonly firstMs: number
}

const defaultTopKeyTiming: TopKeyTiming = { keepMs: 60_000, firstMs: 2_500 }
const maxKeys = 100

interface Count {
  readonly latest: Map<ProcessSession, Top>
  readonly stop: () => void
  timer: NodeJS.Timeout
  /** Called after each report. */
  onReport: () => void
}

export function createTopKeyCounts(
  parts: {
    readonly sessions: () => readonly ProcessSession[]
    readonly reports: WatchedReports
    readonly clock: Clock
    /** Returns the names of the pods without a session. */
    readonly away: () => readonly string[]
  },
  { keepMs, firstMs }: TopKeyTiming = defaultTopKeyTiming,
): TopKeyCounts {
  const counts = new Map<string, Count>()

  function begin(name: string, { domain, rule, by }: TopQuery): Count {
    const latest = new Map<ProcessSession, Top>()
    const watched = { what: 'top', domain, rule, byRefused: by === 'refused' } as const
    const stop = parts.reports.watch(watched, (session, report) => {
      if (report.case !== 'top') return
      latest.set(session, report.value)
      count.onReport()
    })
    const count: Count = { latest, stop, timer: setTimeout(end, keepMs, name).unref(), onReport() {} }
    counts.set(name, count)
    return count
  }

  function end(name: string): void {
    const count = counts.get(name)
    counts.delete(name)
    clearTimeout(count?.timer)
    count?.stop()
  }

  /** Resolves when every process has reported once, or after `firstMs`. */
  async function firstReports(count: Count, domain: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const look = () => {
      const asked = sessionsEnforcing(parts.sessions(), domain)
      if (asked.every(session => count.latest.has(session))) resolve()
    }
    const before = count.onReport
    count.onReport = () => {
      before()
      look()
    }
    const timer = setTimeout(resolve, firstMs)
    look()
    await promise
    clearTimeout(timer)
    count.onReport = before
  }

  return {
    async query(of) {
      const name = JSON.stringify([of.domain, of.rule, of.by])
      requireSessions(parts.sessions(), of.domain)
      const count = counts.get(name) ?? begin(name, of)
      clearTimeout(count.timer)
      count.timer = setTimeout(end, keepMs, name).unref()
      await firstReports(count, of.domain)
      const asked = requireSessions(parts.sessions(), of.domain)
      const tops = asked.flatMap(session => count.latest.get(session) ?? [])
      const silent = podNames(asked.filter(session => !count.latest.has(session)))
      const missing = uniqueNames([...silent, ...parts.away()])
      return { ...mergeTops(tops), missing, hashed: asked.some(hashesValues) }
    },
    close() {
      for (const name of [...counts.keys()]) end(name)
    },
  }
}

/**
 * Adds the counts of equal keys. A key that a sketch does not have can have its `missingAtMost` there, which
 * is added to both the count and the error, so that a count is never too low.
 */
function mergeTops(
  tops: readonly Pick<Top, 'keys' | 'missingAtMost' | 'sinceMs'>[],
): Omit<TopKeys, 'missing' | 'hashed'> {
  const missingAtMost = tops.reduce((sum, top) => sum + Number(top.missingAtMost), 0)
  const merged = new Map<
    string,
    { readonly entries: readonly CounterEntry[]; count: number; error: number }
  >()
  for (const { keys, missingAtMost: own } of tops) {
    for (const { entries, count, error } of keys) {
      const shown = entries.map(({ key, value }) => ({ key, value }))
      const name = JSON.stringify(shown.map(({ key, value }) => [key, value]))
      const sum = merged.get(name) ?? { entries: shown, count: missingAtMost, error: missingAtMost }
      merged.set(name, sum)
      sum.count += Number(count) - Number(own)
      sum.error += Number(error) - Number(own)
    }
  }
  return {
    keys: [...merged.values()].sort((a, b) => b.count - a.count).slice(0, maxKeys),
    missingAtMost,
    sinceMs: Math.max(0, ...tops.map(({ sinceMs }) => Number(sinceMs))),
  }
}
