import type { Top } from '@tollway/proto/tollway/operator/v1/counters'
import { requireSessions } from './counter-queries.ts'
import { podNames, uniqueNames } from './expected-pods.ts'
import type { WatchedReports } from './live-queries.ts'
import type { CounterEntry, TopKeys, TopQuery } from './pod-sessions.ts'
import { hashesValues, type ProcessSession, sessionsEnforcing } from './process-session.ts'

export interface TopKeyTiming {
  /** A count ends when no query has asked for it in this time. */
  readonly idleMs: number
  /** How long a query waits for the first report of every process. */
  readonly firstMs: number
}

const defaultTopKeyTiming: TopKeyTiming = { idleMs: 60_000, firstMs: 2_500 }
const maxKeys = 100

interface Count {
  readonly latest: Map<ProcessSession, Top>
  readonly stop: () => void
  timer: NodeJS.Timeout
  /** Called after each report. A query sets it while it waits for the first reports. */
  onReport: () => void
}

interface CountedParts {
  readonly sessions: () => readonly ProcessSession[]
  readonly reports: WatchedReports
  /** Returns the names of the pods without a session. */
  readonly absent: () => readonly string[]
}

/** Counts the top keys of each rule from its first query until `idleMs` after its last one. */
export class TopKeyCounts {
  readonly #parts: CountedParts
  readonly #timing: TopKeyTiming
  readonly #counts = new Map<string, Count>()

  constructor(parts: CountedParts, timing: TopKeyTiming = defaultTopKeyTiming) {
    this.#parts = parts
    this.#timing = timing
  }

  async read(query: TopQuery): Promise<TopKeys> {
    const { sessions, absent } = this.#parts
    const { domain, rule, by } = query
    const name = JSON.stringify([domain, rule, by])
    requireSessions(sessions(), domain)
    const count = this.#counts.get(name) ?? this.#begin(name, query)
    clearTimeout(count.timer)
    count.timer = this.#endLater(name)
    await this.#firstReports(count, domain)
    const asked = requireSessions(sessions(), domain)
    const tops = asked.flatMap(session => count.latest.get(session) ?? [])
    const silent = podNames(asked.filter(session => !count.latest.has(session)))
    const missing = uniqueNames([...silent, ...absent()])
    return { ...mergeTops(tops), missing, hashed: asked.some(hashesValues) }
  }

  close(): void {
    for (const name of [...this.#counts.keys()]) this.#end(name)
  }

  #begin(name: string, { domain, rule, by }: TopQuery): Count {
    const latest = new Map<ProcessSession, Top>()
    const key = { what: 'top', domain, rule, byRefused: by === 'rejected' } as const
    const stop = this.#parts.reports.watch(key, (session, report) => {
      if (report.case !== 'top') return
      latest.set(session, report.value)
      count.onReport()
    })
    const count: Count = { latest, stop, timer: this.#endLater(name), onReport() {} }
    this.#counts.set(name, count)
    return count
  }

  #endLater(name: string): NodeJS.Timeout {
    return setTimeout(() => this.#end(name), this.#timing.idleMs).unref()
  }

  #end(name: string): void {
    const count = this.#counts.get(name)
    this.#counts.delete(name)
    clearTimeout(count?.timer)
    count?.stop()
  }

  /** Resolves when every process has reported once, or after `firstMs`. */
  async #firstReports(count: Count, domain: string): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const check = () => {
      const asked = sessionsEnforcing(this.#parts.sessions(), domain)
      if (asked.every(session => count.latest.has(session))) resolve()
    }
    const before = count.onReport
    count.onReport = () => {
      before()
      check()
    }
    const timer = setTimeout(resolve, this.#timing.firstMs)
    check()
    await promise
    clearTimeout(timer)
    count.onReport = before
  }
}

/**
 * Adds the counts of equal keys. A key that one process does not report can have up to the `missingAtMost` of
 * that process there. This number is added to both the count and the error, so that no count is too low.
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
  const sorted = [...merged.values()].sort((a, b) => b.count - a.count)
  return {
    keys: sorted.slice(0, maxKeys),
    // Of the keys beyond the list, the first one has the highest count.
    missingAtMost: Math.max(missingAtMost, sorted[maxKeys]?.count ?? 0),
    sinceMs: Math.max(0, ...tops.map(({ sinceMs }) => Number(sinceMs))),
  }
}
