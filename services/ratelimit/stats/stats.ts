/**
 * The statistics of one process: plain numbers under the reference's names. The decision path adds to a
 * counter that it looked up before; sinks and /stats read.
 */
export interface Stats {
  /** The counter of this name, made at the first call. */
  counter(name: string): Counter
  /** A value that is asked for when it is read. */
  gauge(name: string, read: () => number): void
  /** Every counter and gauge, sorted by name. */
  entries(): readonly Stat[]
}

export interface Counter {
  value: number
}

export interface Stat {
  readonly name: string
  readonly kind: 'counter' | 'gauge'
  readonly value: number
}

export function createStats(): Stats {
  const counters = new Map<string, Counter>()
  const gauges = new Map<string, () => number>()
  return {
    counter(name) {
      let counter = counters.get(name)
      if (counter === undefined) {
        counter = { value: 0 }
        counters.set(name, counter)
      }
      return counter
    },
    gauge(name, read) {
      gauges.set(name, read)
    },
    entries() {
      const all: Stat[] = []
      for (const [name, { value }] of counters) all.push({ name, kind: 'counter', value })
      for (const [name, read] of gauges) all.push({ name, kind: 'gauge', value: read() })
      return all.sort((a, b) => (a.name < b.name ? -1 : 1))
    },
  }
}
