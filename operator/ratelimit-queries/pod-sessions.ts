/**
 * The operator's view of the decisions of its rate limit processes, and the queries that they answer. Every
 * operator answers for all processes, with or without the Lease.
 *
 * Each method rejects with a `QueryError`. A process that does not answer by the deadline does not fail
 * a call as long as another one answers: `missing` then has its name. Numbers of hits are summed over the
 * workers of a pod and over all pods.
 */
export interface PodSessions {
  /** One item for each pod, sorted by namespace and name. */
  pods(page?: PageRequest): Promise<Paged<PodState>>
  /** The domains that the pods enforce, sorted by name. */
  domains(page?: PageRequest): Promise<Paged<DomainTotals>>
  /** The rules of a domain that have had hits, sorted by name. Rejects with `unknown-domain`. */
  rules(domain: string, page?: RulesPage): Promise<Paged<RuleTotals>>
  /** Reads the counter of one descriptor where it lies. */
  counter(at: CounterAddress): Promise<CounterReading>
  /**
   * Sets the counter to 0, and drops its key from the local caches of all pods. The change may have been made
   * although the call rejects: see `mayHaveChanged`.
   */
  reset(at: CounterAddress): Promise<CounterChange>
  /**
   * Grants `by` more hits until the window ends: an integer from 1 to `maxRaise`. Rejects with `invalid` and
   * the field `by` for another number.
   */
  raise(at: CounterAddress, by: number): Promise<CounterChange>
  /**
   * Returns the keys of a rule with the most hits. The first call starts the count, and resolves when every
   * pod has reported once, after about 1 s; the count continues until 60 s after the last call.
   */
  top(query: TopQuery): Promise<TopKeys>
  /** Returns the points of the last 15 minutes, one every 5 s, the oldest first: as many as this operator knows. */
  history(query: HistoryQuery): Promise<readonly HistoryPoint[]>
  /** Yields one point a second until the signal is aborted. A renewed connection of a pod continues it. */
  series(watched: Watched, signal: AbortSignal): AsyncIterable<SeriesPoint>
  /**
   * Yields sampled decisions, at least an empty batch each second, until the signal is aborted. Rejects with
   * `switched-off` if no pod allows it.
   */
  tap(watched: Watched, signal: AbortSignal): AsyncIterable<TapBatch>
  /**
   * Replays the recorded calls of all pods together with another configuration of a domain.
   *
   * @param resource an encoded ratelimit.config.ratelimit.v3.RateLimitConfig of at most `maxWhatIfBytes`
   * @returns progress, several times, and then the result as the last item
   */
  whatIf(query: WhatIfQuery, signal: AbortSignal): AsyncIterable<WhatIfStep>
}

/** The largest grant of a raise. */
export const maxRaise = 0xffffffff
/** The largest encoded configuration of a what-if. */
export const maxWhatIfBytes = 10 * 1024 * 1024
/** The most items of a page. */
export const maxPageItems = 1_000

export interface PageRequest {
  /** The `next` of the page before; the first page when left out. */
  readonly after?: string | undefined
  /** The most items, from 1 to `maxPageItems`, which is the default. */
  readonly limit?: number | undefined
}

interface RulesPage extends PageRequest {
  /** Leaves out the totals of each pod, which cost most. */
  readonly sumsOnly?: boolean
}

export interface Paged<T> {
  readonly items: readonly T[]
  /** Undefined on the last page. */
  readonly next?: string
}

/** Numbers of calls, and of their hits. */
export interface HitCounts {
  /** 0 from pods of an earlier version. */
  readonly calls: number
  readonly allowed: number
  readonly refused: number
  /** Allowed hits near the limit. */
  readonly near: number
  /** Hits over the limit that were allowed because of the shadow mode. */
  readonly shadow: number
}

/** Counts to which others are added. */
export const zeroHits = (): { -readonly [Name in keyof HitCounts]: number } => ({
  calls: 0,
  allowed: 0,
  refused: 0,
  near: 0,
  shadow: 0,
})

export interface PodState {
  readonly uid: string
  readonly pod: string
  readonly namespace: string
  /** The workers of the pod that are connected, of how many. */
  readonly workers: number
  readonly expectedWorkers: number
  /** False when a worker is not connected or has not reported for 7.5 s. It is listed for 10 minutes then. */
  readonly isReporting: boolean
  readonly lastReportMsAgo: number
  readonly backend: string
  /** The cause of a failure of the backend; empty if it answers. */
  readonly backendProblem: string
  readonly decisionsPerSecond: number
  /** The median of the last 5 s, in milliseconds: the largest value of the workers; 0 without decisions. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly droppedReports: number
  /** `tap`, `replay`, `merge`, `hashed-keys`. */
  readonly features: readonly string[]
}

export interface DomainTotals extends HitCounts {
  readonly domain: string
  /** The number of rules with a limit. */
  readonly rules: number
  readonly pods: number
  /** Those of the last 5 s, as rates. */
  readonly perSecond: HitCounts
}

export interface RuleTotals extends HitCounts {
  /** `domain.key_value.key2`, as in listings of the configuration. */
  readonly rule: string
  readonly perSecond: HitCounts
  /** The totals of each pod, by its uid. */
  readonly pods: Readonly<Record<string, HitCounts>>
}

export interface CounterAddress {
  readonly domain: string
  /** The entries of one descriptor, in order. */
  readonly entries: readonly CounterEntry[]
}

export interface CounterEntry {
  readonly key: string
  readonly value: string
}

export interface CounterReading {
  /** One for each limit of the rule; most rules have one. */
  readonly counters: readonly CounterState[]
  /** The pods with counters of their own that did not answer, failed, or have no session. */
  readonly missing: readonly string[]
}

export interface CounterState {
  readonly rule: string
  /** The key in the backend, including its window. */
  readonly key: string
  /** Negative after a raise by more than was counted. */
  readonly value: number
  /** The limit; the sum of the pods' limits if each pod has its own counters in memory. */
  readonly limit: number
  /** 0 if the limit is reached. */
  readonly remaining: number
  /** Whole seconds until the window ends. */
  readonly resetSeconds: number
}

/** The counter after a change. */
export interface CounterChange extends CounterReading {
  /** The pods that have dropped the key from their local caches. `missing` has all others that exist. */
  readonly confirmed: readonly string[]
}

export interface TopQuery {
  readonly domain: string
  readonly rule: string
  /** Whether refused hits are counted, or all hits. */
  readonly by: 'refused' | 'hits'
}

export interface TopKeys {
  /** Most hits first, at most 100. A count is too high by at most its error. */
  readonly keys: readonly {
    readonly entries: readonly CounterEntry[]
    readonly count: number
    readonly error: number
  }[]
  /** The most hits that a key can have that is missing here. */
  readonly missingAtMost: number
  /** The time that was counted. */
  readonly sinceMs: number
  /** Whether pods report hashes instead of values. */
  readonly hashed: boolean
  readonly missing: readonly string[]
}

export interface Watched {
  readonly domain: string
  /** The whole domain when left out. */
  readonly rule?: string | undefined
}

export interface HistoryQuery {
  /** Rates of several domains are added. */
  readonly domains: readonly string[]
  /** The whole domains when left out. */
  readonly rule?: string | undefined
}

/** Calls and hits as rates a second. */
export interface HistoryPoint extends HitCounts {
  /** Unix time in milliseconds. */
  readonly atMs: number
  /** Latencies of the slowest pod, of all its domains. */
  readonly p50Ms: number
  readonly p99Ms: number
}

export interface SeriesPoint extends HitCounts {
  /** Unix time in milliseconds. */
  readonly atMs: number
  /** The number of pods that reported. */
  readonly pods: number
}

export interface TapBatch {
  readonly decisions: readonly TappedDecision[]
  /** Decisions that were not sampled. */
  readonly skipped: number
  /** Whether pods report hashes instead of values. */
  readonly hashed: boolean
}

export interface TappedDecision {
  /** Unix time in milliseconds. */
  readonly atMs: number
  readonly pod: string
  readonly entries: readonly CounterEntry[]
  /** Empty if no rule with a limit matched. */
  readonly rule: string
  readonly over: boolean
  /** One line for people. */
  readonly reason: string
  readonly hits: number
  /** The hits that are admitted at once: the limit, or the burst of a token bucket. */
  readonly limit: number
  readonly remaining: number
}

export interface WhatIfQuery {
  readonly domain: string
  readonly resource: Uint8Array
}

export type WhatIfStep =
  | { readonly kind: 'progress' /** From 0 to 1. */; readonly progress: number }
  | { readonly kind: 'result'; readonly result: WhatIfResult }

export interface WhatIfResult {
  /** Hits by rule with the active configuration, and with the proposed one. */
  readonly now: readonly RuleOutcome[]
  readonly proposed: readonly RuleOutcome[]
  /** The keys whose refused hits change most, at most 100. */
  readonly keys: readonly KeyOutcome[]
  readonly coverage: Coverage
}

/** Hits of all keys: those of the recorded keys, divided by their share. */
export interface RuleOutcome {
  readonly rule: string
  readonly allowed: number
  readonly refused: number
  /** The bounds of `refused`. */
  readonly refusedAtLeast: number
  readonly refusedAtMost: number
}

export interface KeyOutcome {
  readonly entries: readonly CounterEntry[]
  readonly hits: number
  readonly refusedNow: number
  readonly refusedProposed: number
}

export interface Coverage {
  /** Unix time in milliseconds of the first counted call; undefined if there is none. */
  readonly fromMs?: number
  /** The recorded calls of the domain since then, of all its calls. */
  readonly recordedCalls: number
  readonly calls: number
  /** The recorded part of the keys. A recorded key has all its calls. */
  readonly share: number
  /** The times of calls are multiples of this. */
  readonly resolutionMs: number
  /** The clocks of two processes differ by this at most. */
  readonly clocksMs: number
  /** The pods whose recordings are replayed completely. */
  readonly pods: number
  /** Those of them that started after `fromMs`: calls of pods that they replaced are missing. */
  readonly started: readonly string[]
  /** The pods that did not answer, have no recording, or have an earlier version. */
  readonly missing: readonly string[]
}
