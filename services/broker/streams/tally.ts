/** Counts entries by key, up to a limit. */
export interface Tally {
  /** Adds one, unless there are `limit` already; returns whether it did. */
  take(key: string, limit: number): boolean
  /** Removes one. */
  release(key: string): void
  count(key: string): number
}

export function createTally(): Tally {
  const counts = new Map<string, number>()
  const count = (key: string) => counts.get(key) ?? 0
  return {
    take(key, limit) {
      if (count(key) >= limit) return false
      counts.set(key, count(key) + 1)
      return true
    },
    release(key) {
      if (count(key) <= 1) counts.delete(key)
      else counts.set(key, count(key) - 1)
    },
    count,
  }
}
