/**
 * The operator's view of the decisions of its rate limit processes, and the queries that they answer. Every
 * operator answers for all processes, with or without the Lease.
 *
 * Each method rejects with a `QueryError`. If some processes do not answer by the deadline, the call succeeds
 * with the answers of the others, and `missing` names the silent pods. Numbers of hits are summed over the
 * workers of a pod and over all pods.
 */
export interface PodSessions {
  /** One item for each pod, sorted by namespace and name. */
  pods(page?: PageRequest): Promise<Paged<PodState>>
  /** The domains that the pods enforce, sorted by name. */
  domains(page?: PageRequest): Promise<Paged<DomainTotals>>
  /** The rules of a domain that have had hits, sorted by name. Rejects with `unknown-domain`. */
  rules(domain: string, page?: RulesPage): Promise<Paged<RuleTotals>>
  /**
   * Reads the counter of one descriptor: from the shared backend, or from each process that counts in memory.
   */
  counter(at: CounterAddress): Promise<CounterReading>
  /**
   * Sets the counter to 0, and drops the key of the counter from the local caches of all pods. If the call
   * rejects, `mayHaveChanged` tells whether the change may have been made.
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
  /**
   * Returns one point for every 5 s of the last 15 minutes, the oldest first; fewer if this operator started
   * later.
   */
  history(query: HistoryQuery): Promise<readonly HistoryPoint[]>
  /** Yields one point per second until the signal is aborted. A pod that reconnects is included again. */
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

/** The maximum number of hits that one raise grants: a limit has 32 bits. */
export const maxRaise = 0xffffffff
/** The maximum bytes of a proposed resource, and of its encoded configuration. */
export const maxWhatIfBytes = 10 * 1024 * 1024
/** The upper bound and the default of `PageRequest.limit`. */
export const maxPageItems = 1_000

export interface PageRequest {
  /** The `next` of the page before; the first page when left out. */
  readonly after?: string | undefined
  /** The maximum number of items on the page: 1 to `maxPageItems`, which is the default. */
  readonly limit?: number | undefined
}

interface RulesPage extends PageRequest {
  /** Leaves out `pods`, the totals of each pod, which cost most. */
  readonly sumsOnly?: boolean
}

export interface Paged<T> {
  readonly items: readonly T[]
  /** The `after` of the next page; undefined on the last page. */
  readonly next?: string
}

/** The number of calls, and the numbers of their hits by outcome. */
export interface HitCounts {
  /** The number of calls; 0 from pods of an earlier version. */
  readonly calls: number
  readonly allowed: number
  readonly refused: number
  /** Allowed hits beyond the share of the limit that NEAR_LIMIT_RATIO sets. */
  readonly near: number
  /** Hits over the limit that were allowed, because the rule is in shadow mode. */
  readonly shadow: number
}

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
  /** The number of connected workers. */
  readonly workers: number
  readonly expectedWorkers: number
  /**
   * False if a worker is not connected or has not reported for 7.5 s. A lost pod is listed for 10 minutes.
   */
  readonly isReporting: boolean
  readonly lastReportMsAgo: number
  readonly backend: string
  /** The cause of a failure of the backend; empty if it answers. */
  readonly backendProblem: string
  readonly decisionsPerSecond: number
  /** The median latency of the last 5 s, of the slowest worker, in milliseconds; 0 without decisions. */
  readonly p50Ms: number
  readonly p99Ms: number
  readonly droppedReports: number
  /** The supported queries and active settings: `tap`, `replay`, `merge`, `hashed-keys`. */
  readonly features: readonly string[]
}

export interface DomainTotals extends HitCounts {
  readonly domain: string
  /** The number of rules with a limit. */
  readonly rules: number
  readonly pods: number
  /** The counts of the last 5 s, as rates per second. */
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
  /** One counter for each limit of the rule; most rules have one limit. */
  readonly counters: readonly CounterState[]
  /**
   * The pods that count in memory, and whose counters are not included: they did not answer, failed, or have
   * no session.
   */
  readonly missing: readonly string[]
  /**
   * What tollway.ratelimit.v1.Budgets has reserved in all limits of the rule together. Left out if a process
   * does not tell: one of an earlier version, or with counters in memcached.
   */
  readonly reservations?: OpenReservations
  /** Why the reservations could not be read; left out if they could. */
  readonly reservationsProblem?: string
  /** What proxies have of a rule with `delivery: Quota`; left out for other rules. */
  readonly shares?: SharesOfBucket
}

/** All rates are in requests per second. */
export interface SharesOfBucket {
  readonly limitPerSecond: number
  /** The sums of all members. */
  readonly wantedPerSecond: number
  readonly grantedPerSecond: number
  readonly memberCount: number
  /** The proxies with the largest shares: at most 100. */
  readonly members: readonly ShareOfMember[]
  /** The parts of the processes, and of proxies whose process has stopped: at most 100. */
  readonly pods: readonly ShareOfMember[]
  /** The pods whose proxies are not included: they did not answer, or have no session. */
  readonly missing: readonly string[]
  /** Why the parts of the processes could not be read; left out if they could. */
  readonly problem?: string
}

export interface ShareOfMember {
  /** The proxy; for a part of a process its id. */
  readonly name: string
  /** The pod to which the proxy reports, or whose part it is; empty for one that is not connected. */
  readonly pod: string
  readonly wantedPerSecond: number
  readonly grantedPerSecond: number
  readonly expiresInMs: number
}

export interface OpenReservations {
  readonly count: number
  /** The number of reservations whose amounts are summed: of each process at most 1,000. */
  readonly summed: number
  /** The sum of their amounts. */
  readonly amount: number
  /** When the first one expires, as Unix time in milliseconds; left out if there is none. */
  readonly nextExpiryMs?: number
  /** Those that expire first, in this order: at most 100. */
  readonly first: readonly { readonly id: string; readonly amount: number; readonly expiresAtMs: number }[]
}

export interface CounterState {
  readonly rule: string
  /** Such as `FixedWindow`; empty from pods of an earlier version. */
  readonly algorithm: string
  /** The key of the counter in the backend. The window is part of it. */
  readonly key: string
  /** The counted hits. Negative after a raise by more hits than were counted. */
  readonly value: number
  /** The limit; the sum of the pods' limits if each pod has its own counters in memory. */
  readonly limit: number
  /** The hits that the limit still admits; 0 if it is reached. */
  readonly remaining: number
  /** Whole seconds until the window ends. */
  readonly resetSeconds: number
}

export interface CounterChange extends CounterReading {
  /** The pods that have dropped the key from their local caches. `missing` names all other pods. */
  readonly confirmed: readonly string[]
}

export interface TopQuery {
  readonly domain: string
  readonly rule: string
  /** Whether only rejected hits are counted, or all hits. */
  readonly by: 'rejected' | 'hits'
}

export interface TopKeys {
  /** The keys, most hits first, at most 100. The true count is from `count - error` to `count`. */
  readonly keys: readonly {
    readonly entries: readonly CounterEntry[]
    readonly count: number
    readonly error: number
  }[]
  /** A key that no pod reports has at most this many hits. */
  readonly missingAtMost: number
  /** For how long the keys have been counted, in milliseconds: the longest time of a pod. */
  readonly sinceMs: number
  /** Whether pods report hashes instead of values. */
  readonly hashed: boolean
  readonly missing: readonly string[]
}

export interface Watched {
  readonly domain: string
  /** The name of the rule; the whole domain when left out. */
  readonly rule?: string | undefined
}

export interface HistoryQuery {
  /** Rates of several domains are added. */
  readonly domains: readonly string[]
  /** The whole domains when left out. */
  readonly rule?: string | undefined
}

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
  readonly pods: number
}

export interface TapBatch {
  readonly decisions: readonly TappedDecision[]
  /** The number of decisions that are left out. */
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
  /** The keys whose rejected hits change most: at most 100. */
  readonly keys: readonly KeyOutcome[]
  readonly coverage: Coverage
}

/** Estimated hits of all keys: the hits of the recorded keys divided by `Coverage.share`. */
export interface RuleOutcome {
  readonly rule: string
  readonly allowed: number
  readonly refused: number
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
  /** The number of recorded calls of the domain since `fromMs`. `calls` also counts calls without a record. */
  readonly recordedCalls: number
  readonly calls: number
  /** The share of keys that are recorded, from 0 to 1. All calls of a recorded key are recorded. */
  readonly share: number
  /** The resolution of recorded times: the times of calls are multiples of it. */
  readonly resolutionMs: number
  /** The most by which the clocks of two processes differ. */
  readonly clocksMs: number
  /** The pods whose recordings are replayed completely. */
  readonly pods: number
  /**
   * The names of those pods that started after `fromMs`: the calls of the pods that they replaced are
   * missing.
   */
  readonly started: readonly string[]
  /** The pods that did not answer, have no recording, or have an earlier version. */
  readonly missing: readonly string[]
}
