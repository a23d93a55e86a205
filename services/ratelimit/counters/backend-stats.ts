/** A number that only grows. */
export interface Tally {
  value: number
}

/** Where a backend's statistics are kept, under the reference's names. */
export interface BackendStats {
  /** The tally of this name, made at the first call. */
  counter(name: string): Tally
  /** A value that is asked for when it is read. */
  gauge(name: string, read: () => number): void
}

/** For those that nobody reads. */
export const unreadStats: BackendStats = { counter: () => ({ value: 0 }), gauge() {} }
