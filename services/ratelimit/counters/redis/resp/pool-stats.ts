import type { BackendStats } from '../../backend-stats.ts'

/**
 * The names of the pools of the main and of the per-second Redis, as in envoyproxy/ratelimit's statistics.
 */
export type PoolName = 'redis_pool' | 'redis_per_second_pool'

/** The counts of the connections that carry counters. */
export interface PoolStats {
  /** The connections that are open now. */
  readonly cxActive: number
  /** All connections that were ever opened. */
  readonly cxTotal: number
  /**
   * The connections that have ended for any reason, although the name, from envoyproxy/ratelimit, says local.
   */
  readonly cxLocalClose: number
  opened(): void
  ended(): void
}

/** Publishes the counts as `ratelimit.<pool>.cx_active`, `.cx_total` and `.cx_local_close`. */
export function createPoolStats(stats: BackendStats, pool: PoolName): PoolStats {
  const total = stats.counter(`ratelimit.${pool}.cx_total`)
  const closed = stats.counter(`ratelimit.${pool}.cx_local_close`)
  const counts: PoolStats = {
    get cxActive() {
      return total.value - closed.value
    },
    get cxTotal() {
      return total.value
    },
    get cxLocalClose() {
      return closed.value
    },
    opened() {
      total.value += 1
    },
    ended() {
      closed.value += 1
    },
  }
  stats.gauge(`ratelimit.${pool}.cx_active`, () => counts.cxActive)
  return counts
}
