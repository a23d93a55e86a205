/**
 * The exact log of admitted calls: it counts the hits of the window that ends now. `SlidingWindow` estimates
 * this number from two counts.
 */
export interface SlidingLog {
  /** Returns the hits after `now - window` and until `now`. Times must not decrease. */
  hits(now: number): number
  add(now: number): void
}

export function slidingLog(window: number): SlidingLog {
  const times: number[] = []
  let first = 0
  return {
    hits(now) {
      while (first < times.length && (times[first] ?? 0) <= now - window) first += 1
      return times.length - first
    },
    add: now => void times.push(now),
  }
}
