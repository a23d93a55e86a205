import type { BackendStats } from '../backend-stats.ts'

/** The reference's names for the connections of the two instances. */
export type PoolName = 'redis_pool' | 'redis_per_second_pool'

/** Counts of the connections that carry counters. */
export interface PoolStats {
  /** How many there are now. */
  readonly cxActive: number
  /** How many there ever were. */
  readonly cxTotal: number
  /** How many have ended, for whatever reason, as with the reference. */
  readonly cxLocalClose: number
  opened(): void
  ended(): void
}

/** Kept as `ratelimit.<pool>.cx_active`, `.cx_total` and `.cx_local_close`. */
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
