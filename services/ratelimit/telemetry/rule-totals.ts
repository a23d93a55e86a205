import { type Domain, knownRule, type RuleSet } from '../rules/compile.ts'
import { hasFlag, none, ruleFlag } from '../rules/domain-table.ts'
import { createRuleFinder } from '../rules/find-same-rule.ts'
import type { Limit } from '../rules/limit.ts'
import type { LimitStats } from '../stats/limit-stats.ts'

/** The number of calls of a rule or a domain, and of their hits. */
export interface HitTotals {
  calls: number
  allowed: number
  refused: number
  near: number
  /** Hits over the limit that were allowed because of the shadow mode. */
  shadow: number
}

interface DomainReport {
  readonly domain: string
  readonly rules: number
  /**
   * Whether the report begins anew after a change of the configuration. A rule that is neither in this report
   * nor in a later one had no hits.
   */
  readonly isWhole: boolean
  readonly changed: readonly (HitTotals & { readonly rule: string })[]
}

export interface TotalsReport {
  readonly domains: readonly DomainReport[]
  readonly removedDomains: readonly string[]
}

export const createHitTotals = (): HitTotals => ({ calls: 0, allowed: 0, refused: 0, near: 0, shadow: 0 })

/** Returns the limits of a rule that has several; otherwise the rule's only limit. */
export function listMembers<S>(limit: Limit<S>): readonly Limit<S>[] {
  return limit.members ?? [limit]
}

function addLimit(sum: HitTotals, { stats }: Limit<LimitStats>, named: Set<LimitStats> | undefined): void {
  addStats(sum, stats)
  if (named === undefined) return
  for (const other of named) if (other !== stats) addStats(sum, other)
}

function addStats(
  sum: HitTotals,
  { calls, withinLimit, overLimit, nearLimit, shadowMode }: LimitStats,
): void {
  sum.calls += calls
  sum.allowed += withinLimit
  sum.refused += overLimit - shadowMode
  sum.near += nearLimit
  sum.shadow += shadowMode
}

/** Returns the hits of the rule with this `configuredKey`, or of the whole domain if `rule` is empty. */
export function sumHits(rules: RuleSet<LimitStats> | undefined, domain: string, rule: string): HitTotals {
  const sum = createHitTotals()
  for (const known of rules?.domains.get(domain)?.known ?? []) {
    if (known === undefined) continue
    const isWhole = rule === '' || known.limit.configuredKey === rule
    for (const [index, limit] of listMembers(known.limit).entries()) {
      if (isWhole || limit.configuredKey === rule) addLimit(sum, limit, known.named?.[index])
    }
  }
  return sum
}

/**
 * Returns a function that reports the rules whose totals have changed since its last call. The first call,
 * and the first one after a change of a domain's configuration, report all rules of the domain that have
 * hits.
 */
export function createTotalsReport(
  rules: () => RuleSet<LimitStats> | undefined,
  countLimits: (domain: Domain<LimitStats>) => number,
): () => TotalsReport {
  let reported = new Map<string, ReportedDomain>()

  return () => {
    const active = rules()?.domains ?? new Map<string, Domain<LimitStats>>()
    const next = new Map<string, ReportedDomain>()
    const domains: DomainReport[] = []
    for (const [name, domain] of active) {
      const before = reported.get(name)
      const isWhole = before?.domain !== domain
      if (isWhole && before !== undefined) carryKnownRules(before.domain, domain)
      const known = isWhole ? { domain, rules: countLimits(domain), sums: new Map() } : before
      next.set(name, known)
      const changed = changedRules(known)
      if (isWhole || changed.length > 0) domains.push({ domain: name, rules: known.rules, isWhole, changed })
    }
    const removedDomains = [...reported.keys()].filter(name => !next.has(name))
    reported = next
    return { domains, removedDomains }
  }
}

/**
 * When a configuration changes, at most this many rules that had hits before are in the first report of the
 * new one. Further ones are reported after their next hit.
 */
const maxCarriedRules = 5_000

/**
 * Opens, in a new configuration, the rules that had hits in the earlier one. A configuration knows a rule
 * only after a request has matched it, but the statistics of a limit of the same name are kept. Statistics
 * that are named after requests are left out until the next such request, because another rule may have that
 * name now.
 */
function carryKnownRules(earlier: Domain<LimitStats>, domain: Domain<LimitStats>): void {
  const find = createRuleFinder(domain.table, earlier.table)
  let carried = 0
  for (const [record, known] of earlier.known.entries()) {
    if (known === undefined) continue
    if (carried === maxCarriedRules) return
    carried += 1
    const same = find(record)
    if (same !== none && hasFlag(domain.table, same, ruleFlag.hasLimit)) knownRule(domain, same)
  }
}

interface ReportedDomain {
  readonly domain: Domain<LimitStats>
  readonly rules: number
  /** The sum of the reported hits of each limit, to detect changes: every hit changes the sum. */
  readonly sums: Map<Limit<LimitStats>, number>
}

function changedRules({ domain, sums }: ReportedDomain): (HitTotals & { readonly rule: string })[] {
  const changed: (HitTotals & { readonly rule: string })[] = []
  for (const rule of domain.known) {
    if (rule === undefined || rule.limit.unlimited) continue
    for (const [index, limit] of listMembers(rule.limit).entries()) {
      const totals = createHitTotals()
      addLimit(totals, limit, rule.named?.[index])
      const sum = totals.allowed + totals.refused + totals.near + totals.shadow
      if (sum === (sums.get(limit) ?? 0)) continue
      sums.set(limit, sum)
      changed.push({ rule: limit.configuredKey, ...totals })
    }
  }
  return changed
}
