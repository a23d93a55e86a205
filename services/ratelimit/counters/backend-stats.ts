/** A number that only increases. */
interface Tally {
  value: number
}

/** The registry of a backend's statistics, under the reference's names. */
export interface BackendStats {
  /** Returns the tally with this name; the first call creates it. */
  counter(name: string): Tally
  /** Registers a value that `read` returns each time the statistic is read. */
  gauge(name: string, read: () => number): void
}

/** Discards all statistics. */
export const unreadStats: BackendStats = { counter: () => ({ value: 0 }), gauge() {} }
