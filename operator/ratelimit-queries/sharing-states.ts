import type { Clock } from '@tollway/chassis/clock.ts'
import { shorten } from '@tollway/chassis/text.ts'
import { maxRuleNameLength, type SharingStatus } from '@tollway/crds/rate-limit-config.ts'
import type { RuleShares } from '@tollway/proto/tollway/operator/v1/counters'
import { type PodTable, podNames, podsWithoutSession, uniqueNames } from './expected-pods.ts'
import { type ProcessSession, sessionsEnforcing } from './process-session.ts'

/** How the limits of a domain are shared, by its configuration. */
export interface SharedDomain {
  readonly domain: string
  /** Whether a rule has `delivery: Quota`. */
  readonly hasQuota: boolean
  /** The most hits of one counter that a process takes ahead of their calls; 0 without `counting: Leased`. */
  readonly largestLease: number
}

interface SharingStatesOptions {
  readonly table: PodTable
  /** The domains in force of which a rule is shared. */
  readonly domains: () => Iterable<SharedDomain>
  /** Whether the sessions of all processes should be here. */
  readonly isLeader: () => boolean
  readonly clock: Clock
}

/** As often as processes report. */
const checkMs = 5_000
/** A state of a domain lasts at least this long: each one is a write to the API server. */
const paceMs = 30_000
/** Proxies whose process has ended report to another one within this time. A state without them would last for `paceMs`. */
const returnMs = 15_000
/** After a start and a change of the leader, processes connect within this time. */
const connectMs = 15_000
/** A process that has not reported for this time is missing. */
const silentMs = 15_000
/** The shares count as converged until they have not matched the demand for this time. */
const divergedMs = 60_000
/** Of each rule, so many buckets must have settled. */
const convergedShare = 0.95
const maxRules = 10
const maxMissing = 10

interface State {
  readonly status: SharingStatus
  readonly changedMs: number
  /** Since when there are fewer proxies than the status says. */
  readonly fewerSinceMs?: number | undefined
}

interface Convergence {
  /** When the shares last came to match the demand, in Unix time; undefined if they have not yet. */
  sinceMs: number | undefined
  isConverged: boolean
  /** When they last matched it, by the monotonic clock. */
  matchedMs: number
}

/**
 * What the statuses of RateLimitConfigs say about shares of limits, by the reports of all processes. It changes only
 * if something of weight has changed, and at most every 30 s.
 */
export class SharingStates {
  readonly #options: SharingStatesOptions
  readonly #listeners: (() => void)[] = []
  #states = new Map<string, State>()
  #convergences = new Map<string, Convergence>()
  #leadsSinceMs: number | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: SharingStatesOptions) {
    this.#options = options
  }

  /** Returns `unknown` until processes have had the time to report. */
  of(domain: string): SharingStatus | 'unknown' {
    return this.#states.get(domain)?.status ?? 'unknown'
  }

  onChange(listener: () => void): void {
    this.#listeners.push(listener)
  }

  start(): void {
    this.#timer ??= setInterval(() => this.check(), checkMs).unref()
  }

  stop(): void {
    clearInterval(this.#timer)
  }

  /** Compares what the processes have reported with the states. */
  check(): void {
    const { table, domains, isLeader, clock } = this.#options
    if (!isLeader()) {
      this.#leadsSinceMs = undefined
      this.#states.clear()
      this.#convergences.clear()
      return
    }
    const nowMs = clock.monotonicMs()
    this.#leadsSinceMs ??= nowMs
    const told = table.sessions().filter(({ state }) => nowMs - state.lastReportMs < silentMs)
    const silent = table.sessions().filter(session => !told.includes(session))
    const missing = uniqueNames([...podsWithoutSession(table), ...podNames(silent)])
    if (missing.length > 0 && nowMs - this.#leadsSinceMs < connectMs) return
    const next = new Map<string, State>()
    const convergences = new Map<string, Convergence>()
    let isChanged = false
    for (const shared of domains()) {
      const { domain } = shared
      const convergence = this.#convergences.get(domain) ?? newConvergence()
      convergences.set(domain, convergence)
      const status = describe(shared, { told, missing, convergence, clock })
      const known = this.#states.get(domain)
      const fewerSinceMs = hasFewer(known?.status, status) ? (known?.fewerSinceMs ?? nowMs) : undefined
      const isKept =
        known !== undefined &&
        (nowMs - known.changedMs < paceMs ||
          nowMs - (fewerSinceMs ?? Number.NEGATIVE_INFINITY) < returnMs ||
          !differs(known.status, status))
      next.set(domain, isKept ? { ...known, fewerSinceMs } : { status, changedMs: nowMs })
      isChanged ||= !isKept
    }
    this.#states = next
    this.#convergences = convergences
    if (isChanged) for (const listener of this.#listeners) listener()
  }
}

const newConvergence = (): Convergence => ({
  sinceMs: undefined,
  isConverged: false,
  matchedMs: Number.NEGATIVE_INFINITY,
})

interface Facts extends Pick<SharingStatesOptions, 'clock'> {
  readonly told: readonly ProcessSession[]
  readonly missing: readonly string[]
  readonly convergence: Convergence
}

function describe(
  { domain, hasQuota, largestLease }: SharedDomain,
  { told, missing, convergence, clock }: Facts,
): SharingStatus {
  const ofDomain = sessionsEnforcing(told, domain)
  // Counters in memory are asked at no cost, so nothing is taken ahead.
  const leasing = ofDomain.filter(({ identity }) => identity.backend !== 'memory')
  const processes = leasing.length + missingProcesses(missing, told)
  const hasLeases = largestLease > 0 && (leasing.length > 0 || ofDomain.length === 0)
  return {
    ...(hasQuota && { quota: describeQuota(domain, ofDomain, { missing, convergence, clock }) }),
    ...(hasLeases && { leases: { perProcess: largestLease, total: largestLease * processes } }),
  }
}

/** Returns how many processes are missing at most. All pods have as many workers, and a process that is silent runs. */
function missingProcesses(missing: readonly string[], told: readonly ProcessSession[]): number {
  const workers = Math.max(1, ...told.map(({ identity }) => identity.workers))
  const ofMissing = told.filter(({ identity }) => missing.includes(identity.pod || identity.uid))
  return missing.length * workers - ofMissing.length
}

function describeQuota(
  domain: string,
  sessions: readonly ProcessSession[],
  { missing, convergence, clock }: Omit<Facts, 'told'>,
): NonNullable<SharingStatus['quota']> {
  const shares = sessions.flatMap(({ state }) => state.shares.filter(each => each.domain === domain))
  const byRule = Map.groupBy(
    shares.flatMap(({ rules }) => rules),
    ({ rule }) => rule,
  )
  updateConvergence(convergence, [...byRule.values()], clock)
  const rules = Array.from(byRule, ([rule, parts]) => describeRule(rule, parts))
    .toSorted((one, other) => other.buckets - one.buckets)
    .slice(0, maxRules)
    .toSorted((one, other) => (one.rule < other.rule ? -1 : 1))
  const { sinceMs, isConverged } = convergence
  // Never empty: the API server makes null of an object whose fields all go, and rejects it.
  const areMembersKnown = sessions.length > 0 || missing.length === 0
  return {
    ...(areMembersKnown && { members: sum(shares, ({ members }) => members), rules }),
    ...(rules.length > 0 && { converged: isConverged }),
    ...(sinceMs !== undefined && { lastConvergence: new Date(sinceMs).toISOString() }),
    ...(missing.length > 0 && { missingPods: missing.slice(0, maxMissing) }),
  }
}

function sum<Part>(parts: readonly Part[], read: (part: Part) => number): number {
  return parts.reduce((total, part) => total + read(part), 0)
}

type RuleStatus = NonNullable<NonNullable<SharingStatus['quota']>['rules']>[number]

function describeRule(rule: string, parts: readonly RuleShares[]): RuleStatus {
  const [{ tokens = 0n, maxTokens = 0n } = {}] = parts
  const buckets = countBuckets(parts)
  const limits = Number(tokens) * buckets
  const share = limits === 0 ? 0 : sum(parts, ({ assigned }) => assigned) / limits
  return {
    rule: shorten(rule, maxRuleNameLength),
    buckets,
    assignedPercent: Math.min(100, Math.round(share * 100)),
    // A proxy with a share below one a second still has a token at once.
    atOnceAtMost: Number(maxTokens) + Math.max(0, sum(parts, ({ mostMembers }) => mostMembers) - 1),
  }
}

const hashes = 2 ** 32

/**
 * Counts the different buckets of all processes, of which each tells the smallest hashes: exactly if they tell all of
 * them, and otherwise by how close together the smallest hashes are (k minimum values; Bar-Yossef et al. 2002).
 */
function countBuckets(parts: readonly RuleShares[]): number {
  const all = [...new Set(parts.flatMap(({ sketch }) => sketch))].sort((one, other) => one - other)
  const cut = parts.filter(({ sketch, buckets }) => sketch.length < buckets)
  if (cut.length === 0) return all.length
  const size = Math.min(...cut.map(({ sketch }) => sketch.length))
  const last = all[size - 1] ?? hashes
  const estimate = Math.round(((size - 1) * hashes) / Math.max(1, last))
  const least = Math.max(...parts.map(({ buckets }) => buckets))
  const most = sum(parts, ({ buckets }) => buckets)
  return Math.min(most, Math.max(least, estimate))
}

function updateConvergence(
  convergence: Convergence,
  rules: readonly (readonly RuleShares[])[],
  clock: Clock,
): void {
  if (rules.length === 0) return
  const nowMs = clock.monotonicMs()
  const matches = rules.every(parts => {
    return sum(parts, ({ settled }) => settled) >= sum(parts, ({ buckets }) => buckets) * convergedShare
  })
  if (matches) {
    if (!convergence.isConverged) convergence.sinceMs = clock.nowMs()
    convergence.isConverged = true
    convergence.matchedMs = nowMs
  } else if (nowMs - convergence.matchedMs >= divergedMs) convergence.isConverged = false
}

/** Returns whether proxies have gone, and not only those of processes that the status names as missing. */
const hasFewer = (known: SharingStatus | undefined, { quota }: SharingStatus) =>
  quota?.missingPods === undefined && (known?.quota?.members ?? 0) > (quota?.members ?? 0)

/** Returns whether something of weight has changed: small changes of numbers are of none. */
function differs({ quota: a, leases: old }: SharingStatus, { quota: b, leases }: SharingStatus): boolean {
  const names = (quota: typeof a) =>
    JSON.stringify([quota?.missingPods, quota?.rules?.map(({ rule }) => rule)])
  return (
    old?.perProcess !== leases?.perProcess ||
    old?.total !== leases?.total ||
    a?.members !== b?.members ||
    a?.converged !== b?.converged ||
    names(a) !== names(b) ||
    (a?.rules ?? []).some((rule, index) => differsOfRule(rule, b?.rules?.[index]))
  )
}

function differsOfRule(a: RuleStatus, b: RuleStatus = a): boolean {
  const isOther = (one: number, other: number) => Math.abs(one - other) * 10 > Math.max(one, other)
  return (
    isOther(a.buckets, b.buckets) ||
    isOther(a.atOnceAtMost, b.atOnceAtMost) ||
    Math.abs(a.assignedPercent - b.assignedPercent) >= 5
  )
}
