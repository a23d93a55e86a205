import type { LimitCheck } from '../counters/admission/limit-check.ts'
import type { RuleSet } from '../rules/compile.ts'
import type { Limit } from '../rules/limit.ts'
import type { DescriptorEntry } from '../rules/match.ts'
import { match } from '../rules/match.ts'
import { secondsUntilReset } from '../rules/window.ts'
import type { LimitStats } from '../stats/limit-stats.ts'
import { isPerSecond, needsAdmission, prepareAdmission } from './admission.ts'

/** The counters that a call with one descriptor would use. */
interface Location {
  /** Undefined if no rule with a limit matches. */
  readonly limit: Limit<LimitStats> | undefined
  /** One counter for each limit of the rule; empty for an unlimited rule. */
  readonly counters: readonly LocatedCounter[]
}

export interface LocatedCounter {
  readonly limit: Limit<LimitStats>
  /** The key, the algorithm and the numbers of the counter, with 0 hits. */
  readonly check: LimitCheck
  /** Whether the counter is in the separate backend for limits per second, if there is one. */
  readonly perSecond: boolean
  /** The seconds until the window ends; only for `FixedWindow`. */
  readonly resetSeconds: number
}

/**
 * Finds the counters that a descriptor has now. Returns undefined for an unknown domain. Changes no
 * statistics.
 */
export function locateCounters(
  rules: RuleSet<LimitStats> | undefined,
  domain: string,
  entries: readonly DescriptorEntry[],
  { cacheKeyPrefix, nowSeconds }: { readonly cacheKeyPrefix: string; readonly nowSeconds: number },
): Location | undefined {
  const table = rules?.domains.get(domain)?.table
  if (rules === undefined || table === undefined) return undefined
  const found = match(rules, domain, entries)
  if (found === undefined || found.limit.unlimited) return { limit: found?.limit, counters: [] }
  const { checks, limits } = prepareAdmission(found, 0, { cacheKeyPrefix, nowSeconds })
  const counters = limits.map((limit, index) => {
    const perSecond = isPerSecond(limit) && !needsAdmission(found, table.allOrNothing)
    const check = checks[index] as LimitCheck
    return { limit, check, perSecond, resetSeconds: secondsUntilReset(nowSeconds, limit) }
  })
  return { limit: found.limit, counters }
}
