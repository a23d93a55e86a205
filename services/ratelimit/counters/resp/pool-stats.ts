/** Counts of the connections that carry counters, by the reference's names. */
export interface PoolStats {
  /** How many there are now. */
  readonly cxActive: number
  /** How many there ever were. */
  readonly cxTotal: number
  /** How many have ended; for whatever reason, as with the reference. */
  readonly cxLocalClose: number
}

/** What a connection tells. */
export interface PoolStatsWriter extends PoolStats {
  opened(): void
  ended(): void
}

export function createPoolStats(): PoolStatsWriter {
  let cxTotal = 0
  let cxLocalClose = 0
  return {
    get cxActive() {
      return cxTotal - cxLocalClose
    },
    get cxTotal() {
      return cxTotal
    },
    get cxLocalClose() {
      return cxLocalClose
    },
    opened() {
      cxTotal += 1
    },
    ended() {
      cxLocalClose += 1
    },
  }
}
