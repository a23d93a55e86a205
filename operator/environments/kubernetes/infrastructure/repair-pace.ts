import type { Clock } from '@tollway/chassis/clock.ts'

/**
 * How often something is set right that others set otherwise: each time at once, but twice within a minute at
 * the most. Two programs that both insist would otherwise keep an API server busy for ever.
 */
export interface RepairPace {
  /** How long to wait until the next repair of this; 0 when it may be now. */
  waitMs(key: string): number
  /** Counts a repair. Returns how many of the last repairs are remembered. */
  count(key: string): number
  forget(key: string): void
}

export const repairLimits = { repairs: 2, windowMs: 60_000 } as const

export function createRepairPace(clock: Clock): RepairPace {
  /** When each was repaired, as far back as it matters. */
  const repairedMs = new Map<string, readonly number[]>()
  return {
    waitMs(key) {
      const times = repairedMs.get(key) ?? []
      if (times.length < repairLimits.repairs) return 0
      return Math.max(0, (times[0] ?? 0) + repairLimits.windowMs - clock.monotonicMs())
    },
    count(key) {
      const times = [...(repairedMs.get(key) ?? []), clock.monotonicMs()]
      repairedMs.set(key, times.slice(-repairLimits.repairs))
      return times.length
    },
    forget: key => repairedMs.delete(key),
  }
}
