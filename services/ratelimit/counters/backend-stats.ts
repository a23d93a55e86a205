interface Tally {
  value: number
}

/** The registry of a backend's statistics; their names are those of envoyproxy/ratelimit. */
export interface BackendStats {
  /** Created by the first call. */
  counter(name: string): Tally
  /** Registers a gauge, whose value `read` returns each time it is read. */
  gauge(name: string, read: () => number): void
}

export const unreadStats: BackendStats = { counter: () => ({ value: 0 }), gauge() {} }
