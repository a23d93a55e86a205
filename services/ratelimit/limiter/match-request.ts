import type { RuleSet } from '../rules/compile.ts'
import { createOverride, type Match, match } from '../rules/match.ts'
import { findReplacedNames } from '../rules/replaces.ts'
import type { LimitStats, LimitStatsTable } from '../stats/limit-stats.ts'
import { type DecisionRequest, type DescriptorRequest, RequestError } from './decision.ts'

/** Undefined if no limit matches, or if the limit of another descriptor replaces it. */
export type DescriptorMatch = Match<LimitStats> | undefined

export type Matches = readonly DescriptorMatch[]

/**
 * Matches each descriptor with the rules, or with the limit that the caller sent for it.
 *
 * @throws RequestError for a caller's limit without a known unit
 */
export function matchRequest(
  { domain, descriptors }: DecisionRequest,
  rules: RuleSet<LimitStats>,
  limitStats: LimitStatsTable,
): Matches {
  if (!rules.domains.has(domain)) {
    // As in envoyproxy/ratelimit, the statistic counts descriptors, not requests.
    limitStats.domainNotFound(domain).value += descriptors.length
    return descriptors.map(() => undefined)
  }
  const matches = descriptors.map((descriptor, index) =>
    descriptor.limit === undefined
      ? match(rules, domain, descriptor.entries, limitStats.attachRequested)
      : matchOwnLimit(domain, descriptor, index, limitStats),
  )
  return matches.some(mayReplace) ? withoutReplaced(matches) : matches
}

function mayReplace(found: DescriptorMatch): boolean {
  return found !== undefined && found.limit.replaces.length > 0
}

/** Returns the match for a limit that the caller sent; throws a RequestError if it has no known unit. */
function matchOwnLimit(
  domain: string,
  { entries, limit }: DescriptorRequest,
  index: number,
  limitStats: LimitStatsTable,
): DescriptorMatch {
  if (limit === undefined) return undefined
  const { requestsPerUnit, unit } = limit
  if (unit === undefined) {
    throw new RequestError(
      `descriptors[${index}].limit.unit must be one of SECOND, MINUTE, HOUR, DAY, MONTH, YEAR`,
      true,
    )
  }
  return createOverride(domain, entries, { requestsPerUnit, unit }, limitStats.attachRequested)
}

/**
 * Removes the limits that are replaced. An unlimited rule cannot be replaced. A rule with several limits
 * keeps those that are not replaced, and becomes no match if there are none.
 */
function withoutReplaced(matches: Matches): Matches {
  const replaced = findReplacedNames(matches)
  return matches.map(found => {
    if (found === undefined || found.limit.unlimited) return found
    const { limit } = found
    if (limit.members === undefined) return replaced.has(limit.name) ? undefined : found
    const members = limit.members.filter(({ name }) => !replaced.has(name))
    return members.length === 0 ? undefined : { ...found, limit: { ...limit, members } }
  })
}
