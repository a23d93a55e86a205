import type { Clock } from '@tollway/chassis/clock.ts'

/**
 * Limits how often an object is repaired that another program changes: each repair is made at once, but at
 * most two within a minute. Otherwise two programs with different desired states would overload the API
 * server.
 */
export interface RepairPace {
  /** Returns the wait before the next repair of an object, in milliseconds; 0 if it may be made now. */
  waitMs(key: string): number
  /** Counts a repair. Returns the number of its recent repairs. */
  count(key: string): number
  forget(key: string): void
}

export const repairLimits = { repairs: 2, windowMs: 60_000 } as const

export function createRepairPace(clock: Clock): RepairPace {
  /** The times of the recent repairs of each object. */
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
