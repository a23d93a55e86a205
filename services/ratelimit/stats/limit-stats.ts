import { sanitizeStatName } from '../rules/names.ts'
import type { StatCounter, Stats } from './stats.ts'

/** The counters of one rule, under `ratelimit.service.rate_limit.<name>.`. */
export interface LimitStats {
  totalHits: number
  overLimit: number
  /** Hits above the limit that the local cache detected without the backend. */
  overLimitWithLocalCache: number
  nearLimit: number
  withinLimit: number
  shadowMode: number
  /**
   * The number of calls with these hits. It is reported to the operator, but is not among the statistics,
   * because envoyproxy/ratelimit has no statistic of calls.
   */
  calls: number
}

const prefix = 'ratelimit.service.rate_limit.'

const suffixes = {
  totalHits: 'total_hits',
  overLimit: 'over_limit',
  overLimitWithLocalCache: 'over_limit_with_local_cache',
  nearLimit: 'near_limit',
  withinLimit: 'within_limit',
  shadowMode: 'shadow_mode',
} satisfies Partial<Record<keyof LimitStats, string>>

const zeros = (): LimitStats => ({
  totalHits: 0,
  overLimit: 0,
  overLimitWithLocalCache: 0,
  nearLimit: 0,
  withinLimit: 0,
  shadowMode: 0,
  calls: 0,
})

export type LimitStatsTable = ReturnType<typeof createLimitStats>

/**
 * How many names of one kind have statistics of their own; all other names share the statistics `overflow`.
 * Lengths are in UTF-16 code units.
 */
interface NameLimits {
  readonly names: number
  readonly characters: number
  readonly charactersOfOne: number
}

export const defaultNameLimits = {
  configured: { names: 100_000, characters: 10_000_000, charactersOfOne: 10_000 },
  requested: { names: 100_000, characters: 10_000_000, charactersOfOne: 1_000 },
  unknownDomains: { names: 1_000, characters: 100_000, charactersOfOne: 1_000 },
} as const satisfies Record<string, NameLimits>

/**
 * Each kind of names has its own `NameLimits`, so that callers cannot use up the names of configured limits.
 *
 * @param onOverflow called once for each kind of names, with the description of the kind
 */
export function createLimitStats(
  stats: Stats,
  onOverflow: (what: string) => void,
  limits: Readonly<Record<keyof typeof defaultNameLimits, NameLimits>> = defaultNameLimits,
) {
  const countersOf = stats.family(prefix, suffixes, zeros)
  const notAddresses = boundedTable(
    limits.configured,
    name => stats.follower(`${prefix}${name}.not_an_address`),
    () => onOverflow('configured limits with networks'),
  )
  return {
    /** The counters of a configured limit, such as `checkout.user.path_/pay`; always the same object. */
    attach: boundedTable(limits.configured, countersOf, () => onOverflow('configured limits')),
    /**
     * Returns the counters of a limit that is named after a request: by `detailed_metric`, by
     * `value_to_metric`, or because the request brings the limit with it.
     */
    attachRequested: boundedTable(limits.requested, countersOf, () =>
      onOverflow('limits that are named after requests'),
    ),
    /**
     * Returns the counter of values that are not addresses, which each of these limits has as
     * `not_an_address`. All have one counter, so that counting does not take longer with more limits.
     */
    attachNotAddress(names: readonly string[]): StatCounter {
      const counter: StatCounter = { value: 0 }
      for (const name of names) notAddresses(name).follow(counter)
      return counter
    },
    /** Returns the counter of descriptors in requests for a domain without a configuration. */
    domainNotFound: boundedTable(
      limits.unknownDomains,
      domain => stats.counter(`${prefix}${sanitizeStatName(domain)}.domain_not_found`),
      () => onOverflow('unknown domains'),
    ),
  }
}

/**
 * Returns a function that creates one value for each name until `limits` are reached, and then returns the
 * same value for all other names. Calls `onOverflow` once, for the first of the other names.
 */
function boundedTable<T>(
  limits: NameLimits,
  make: (name: string) => T,
  onOverflow: () => void,
): (name: string) => T {
  const known = new Map<string, T>()
  let characters = 0
  let overflow: T | undefined
  return name => {
    const found = known.get(name)
    if (found !== undefined) return found
    const fits = name.length <= Math.min(limits.charactersOfOne, limits.characters - characters)
    if (fits && known.size < limits.names) {
      const made = make(name)
      known.set(name, made)
      characters += name.length
      return made
    }
    if (overflow === undefined) {
      overflow = make('overflow')
      onOverflow()
    }
    return overflow
  }
}
