import type { Counter, Stats } from './stats.ts'

/** The counters of one rule, under `ratelimit.service.rate_limit.<name>.`. */
export interface LimitStats {
  readonly totalHits: Counter
  readonly overLimit: Counter
  readonly nearLimit: Counter
  readonly withinLimit: Counter
  readonly shadowMode: Counter
}

export interface LimitStatsTable {
  /** The counters under this name, such as `checkout.user.path_/pay`; the same object at each call. */
  attach(name: string): LimitStats
}

/**
 * Names can come from the values of requests (`detailed_metric`), so there is a limit on their number. What
 * comes after is counted together under `overflow`, and told once.
 */
export const maxLimitNames = 100_000

export function createLimitStats(
  stats: Stats,
  onOverflow: (name: string) => void,
  limit = maxLimitNames,
): LimitStatsTable {
  const known = new Map<string, LimitStats>()
  let overflow: LimitStats | undefined
  return {
    attach(name) {
      const found = known.get(name)
      if (found !== undefined) return found
      if (known.size < limit) {
        const made = countersOf(stats, name)
        known.set(name, made)
        return made
      }
      if (overflow === undefined) {
        overflow = countersOf(stats, 'overflow')
        onOverflow(name)
      }
      return overflow
    },
  }
}

function countersOf(stats: Stats, name: string): LimitStats {
  const prefix = `ratelimit.service.rate_limit.${name}`
  return {
    totalHits: stats.counter(`${prefix}.total_hits`),
    overLimit: stats.counter(`${prefix}.over_limit`),
    nearLimit: stats.counter(`${prefix}.near_limit`),
    withinLimit: stats.counter(`${prefix}.within_limit`),
    shadowMode: stats.counter(`${prefix}.shadow_mode`),
  }
}
