import { createHistogram, type Histogram, type HistogramReading } from './histogram.ts'

/**
 * The statistics of one process: plain numbers under the reference's names. The decision path adds to a
 * counter or a histogram that it looked up before; sinks and /stats read.
 */
export interface Stats {
  /** The counter of this name, made at the first call. */
  counter(name: string): Counter
  /** A value that is asked for when it is read. A second one of this name takes the place of the first. */
  gauge(name: string, read: () => number): void
  /** Durations in milliseconds under this name, made at the first call. */
  histogram(name: string): Histogram
  /** Every counter and gauge, sorted by name: for people, since sorting takes its time. */
  entries(): readonly Stat[]
  /**
   * All of a kind in the order of their making, for sinks. These lists only grow, so that a sink may remember
   * by its place in them what it said of a series.
   */
  readonly counters: readonly NamedCounter[]
  readonly gauges: readonly Gauge[]
  readonly histograms: readonly NamedHistogram[]
}

export interface Counter {
  value: number
}

export interface NamedCounter extends Counter {
  readonly name: string
}

export interface Gauge {
  readonly name: string
  readonly read: () => number
}

export interface NamedHistogram extends Histogram, HistogramReading {
  readonly name: string
}

export interface Stat {
  readonly name: string
  readonly kind: 'counter' | 'gauge'
  readonly value: number
}

export function createStats(): Stats {
  const counters = createRegister<NamedCounter>(name => ({ name, value: 0 }))
  const gauges = createRegister<{ readonly name: string; read: () => number }>(name => ({
    name,
    read: () => 0,
  }))
  const histograms = createRegister<NamedHistogram>(name => ({ name, ...createHistogram() }))
  return {
    counter: counters.get,
    gauge(name, read) {
      gauges.get(name).read = read
    },
    histogram: histograms.get,
    entries() {
      const all: Stat[] = [
        ...counters.all.map(({ name, value }): Stat => ({ name, kind: 'counter', value })),
        ...gauges.all.map(({ name, read }): Stat => ({ name, kind: 'gauge', value: read() })),
      ]
      return all.sort((a, b) => (a.name < b.name ? -1 : 1))
    },
    counters: counters.all,
    gauges: gauges.all,
    histograms: histograms.all,
  }
}

interface Register<T> {
  readonly all: readonly T[]
  get(name: string): T
}

function createRegister<T>(make: (name: string) => T): Register<T> {
  const byName = new Map<string, T>()
  const all: T[] = []
  return {
    all,
    get(name) {
      let found = byName.get(name)
      if (found === undefined) {
        found = make(name)
        byName.set(name, found)
        all.push(found)
      }
      return found
    },
  }
}
