import { type Domain, knownRule, type RuleSet } from '../rules/compile.ts'
import { hasFlag, none, ruleFlag } from '../rules/domain-table.ts'
import { createRuleFinder } from '../rules/find-same-rule.ts'
import type { Limit } from '../rules/limit.ts'
import type { LimitStats } from '../stats/limit-stats.ts'

/** Numbers of calls of a rule or a domain, and of their hits. */
export interface HitTotals {
  calls: number
  allowed: number
  refused: number
  /** Allowed hits near the limit. */
  near: number
  /** Hits over the limit that were allowed because of the shadow mode. */
  shadow: number
}

interface DomainReport {
  readonly domain: string
  /** The number of rules with a limit. */
  readonly rules: number
  /** Whether rules that are missing here and in earlier reports of this content do not exist. */
  readonly isWhole: boolean
  readonly changed: readonly (HitTotals & { readonly rule: string })[]
}

export interface TotalsReport {
  readonly domains: readonly DomainReport[]
  readonly removedDomains: readonly string[]
}

export const createHitTotals = (): HitTotals => ({ calls: 0, allowed: 0, refused: 0, near: 0, shadow: 0 })

/** Returns the limits of a rule, which has several or is one itself. */
export function listMembers<S>(limit: Limit<S>): readonly Limit<S>[] {
  return limit.members ?? [limit]
}

/** Adds the hits of one limit of a rule since the start of the process. */
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

/** Returns the hits of the rule with this `configuredKey`, or of the whole domain if it is empty. */
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
 * Returns a function that reports the rules whose totals changed since its last call. The first call reports
 * all rules with hits, and so does the first one after a change of the domain's configuration.
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
 * The rules with hits of an earlier configuration that the report of a new one can have. Rules beyond it are
 * reported after their next hit.
 */
const maxCarriedRules = 5_000

/**
 * Opens the rules with hits of an earlier configuration in the new one, which has the same statistics for a
 * limit of the same name: a domain's configuration has no rule with hits until a request matches it.
 * Statistics that are named after requests are left out until the next such request, since another rule may
 * have them now.
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
  /** The sum of the reported hits of each limit: every hit changes it. */
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
