import type { Clock } from '@tollway/chassis/clock.ts'
import { QueryError } from '../pods/query-error.ts'
import type { SessionTable } from '../pods/session-table.ts'
import { changeCounter, type QueryDeadlines, readCounter, requireSessions } from './counter-queries.ts'
import { type ExpectedPod, podsWithoutSession } from './expected-pods.ts'
import { History } from './history.ts'
import { WatchedReports, watchSeries, watchTap } from './live-queries.ts'
import { mergeDomains, mergePods, mergeRules } from './merge-totals.ts'
import { paginate } from './pages.ts'
import type { PodSessions, WhatIfQuery, WhatIfStep } from './pod-sessions.ts'
import type { ProcessSession } from './process-session.ts'
import { TopKeyCounts, type TopKeyTiming } from './top-keys.ts'
import { askWhatIf, type WhatIfTiming } from './what-if.ts'

interface PodSessionsOptions {
  readonly table: Pick<SessionTable<ProcessSession>, 'sessions' | 'lost' | 'onOpen'>
  /**
   * Returns the pods that exist, with or without sessions. If left out, pods without a session are not known.
   */
  readonly expected?: () => readonly ExpectedPod[]
  readonly clock: Clock
  readonly deadlines?: Partial<QueryDeadlines>
  readonly topKeys?: TopKeyTiming
  readonly whatIf?: WhatIfTiming
}

const defaultDeadlines: QueryDeadlines = { counterMs: 2_000, forgetMs: 1_000 }

/** How long sums are reused: many consoles ask for the same ones, which change every 5 s. */
const cacheMs = 500

/** Returns a function that calls `make` only if the result of the last call is at least `ms` old. */
function cacheFor<Result>(ms: number, clock: Clock, make: () => Result): () => Result {
  let cached: { readonly atMs: number; readonly result: Result } | undefined
  return () => {
    const nowMs = clock.monotonicMs()
    if (cached === undefined || nowMs - cached.atMs >= ms) cached = { atMs: nowMs, result: make() }
    return cached.result
  }
}

export function createPodSessions(options: PodSessionsOptions): PodSessions & { close(): void } {
  const { clock, expected = () => [] } = options
  const table = { ...options.table, expected }
  const deadlines = { ...defaultDeadlines, ...options.deadlines }
  const reports = new WatchedReports(table)
  const absent = () => podsWithoutSession(table)
  const live = { sessions: table.sessions, reports, clock }
  const topKeys = new TopKeyCounts({ sessions: table.sessions, reports, absent }, options.topKeys)
  const domains = cacheFor(cacheMs, clock, () => mergeDomains(table.sessions(), clock.monotonicMs()))
  const pods = cacheFor(cacheMs, clock, () => mergePods(table.sessions(), table.lost(), clock.monotonicMs()))
  const history = new History(table.sessions, clock)
  let replays = 0

  async function* whatIf(query: WhatIfQuery, signal: AbortSignal): AsyncGenerator<WhatIfStep> {
    if (replays > 0) throw new QueryError('too-many', 'another replay is running')
    replays += 1
    try {
      yield* askWhatIf(table.sessions(), absent(), query, signal, options.whatIf)
    } finally {
      replays -= 1
    }
  }

  return {
    async pods(page) {
      return paginate(pods(), ({ namespace, pod, uid }) => `${namespace}/${pod} ${uid}`, page)
    },
    async domains(page) {
      return paginate(domains(), ({ domain }) => domain, page)
    },
    async rules(domain, page) {
      const found = requireSessions(table.sessions(), domain)
      const merged = mergeRules(found, domain, clock.monotonicMs(), page?.sumsOnly)
      return paginate(merged, ({ rule }) => rule, page)
    },
    counter: async at => readCounter(table, at, deadlines),
    reset: async at => changeCounter(table, at, 'reset', deadlines),
    raise: async (at, by) => changeCounter(table, at, by, deadlines),
    top: query => topKeys.read(query),
    history: async query => history.read(query),
    series: (watched, signal) => watchSeries(live, watched, signal),
    tap: (watched, signal) => watchTap(live, watched, signal),
    whatIf,
    close() {
      history.close()
      topKeys.close()
      reports.close()
    },
  }
}
