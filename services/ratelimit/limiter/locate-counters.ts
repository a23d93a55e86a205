import type { LimitCheck } from '../counters/admission/limit-check.ts'
import type { RuleSet } from '../rules/compile.ts'
import type { Limit } from '../rules/limit.ts'
import type { DescriptorEntry } from '../rules/match.ts'
import { match } from '../rules/match.ts'
import { secondsUntilReset } from '../rules/window.ts'
import type { LimitStats } from '../stats/limit-stats.ts'
import { isPerSecond, needsAdmission, prepareChecks } from './admission.ts'

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
  const { allOrNothing } = table
  const reading = { domain, descriptors: [{ entries, hitsAddend: 0 }], hitsAddend: 0 }
  // With `allOrNothing`, `prepareChecks` returns a check for each limit, even for one that needs no
  // admission. The key is the same.
  const options = { cacheKeyPrefix, nowSeconds, allOrNothing: true, jitterSeconds: () => 0 }
  const [admission] = prepareChecks(reading, [found], options).admissions
  const { checks = [], limits = [] } = admission ?? {}
  const counters = checks.flatMap((check, index) => {
    const limit = limits[index]
    if (limit === undefined) return []
    const perSecond = isPerSecond(limit) && !needsAdmission(found, allOrNothing)
    return [{ limit, check, perSecond, resetSeconds: secondsUntilReset(nowSeconds, limit) }]
  })
  return { limit: found.limit, counters }
}
