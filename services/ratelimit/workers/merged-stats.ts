import type { Histogram } from '@tollway/chassis/metrics/histogram.ts'
import { defaultNameLimits } from '../stats/limit-stats.ts'
import type { StatCounter, Stats } from '../stats/stats.ts'
import type { SeriesDelta } from './series-deltas.ts'

/**
 * Bounds the series of limits. Each worker limits its names by `defaultNameLimits`, but workers, and the same
 * worker after a restart, may have different names. The sum therefore has the limit of one worker again.
 */
const { configured, requested, unknownDomains } = defaultNameLimits
const maxLimitSeries = 6 * (configured.names + requested.names) + unknownDomains.names

const limitPrefix = 'ratelimit.service.rate_limit.'

/**
 * Adds the statistics of workers to the statistics of the supervisor. Counters and durations are sums over
 * all processes that ever ran; gauges are sums over the processes that run now.
 */
export class MergedStats {
  readonly stats: Stats
  readonly counterOf: (name: string) => StatCounter
  readonly #gauges = new Map<string, Map<WorkerStats, number>>()

  constructor(stats: Stats, maxSeries = maxLimitSeries) {
    this.stats = stats
    this.counterOf = boundedCounters(stats, maxSeries)
  }

  /** Registers a process, which reports all series from 0; what earlier processes reported is kept. */
  open(): WorkerStats {
    return new WorkerStats(this)
  }

  openGauge(name: string): Map<WorkerStats, number> {
    const known = this.#gauges.get(name)
    if (known !== undefined) return known
    const values = new Map<WorkerStats, number>()
    this.#gauges.set(name, values)
    this.stats.gauge(name, () => values.values().reduce((sum, value) => sum + value, 0))
    return values
  }
}

class WorkerStats {
  readonly #merged: MergedStats
  readonly #counters: StatCounter[] = []
  readonly #gauges: Map<WorkerStats, number>[] = []
  readonly #histograms: Histogram[] = []

  constructor(merged: MergedStats) {
    this.#merged = merged
  }

  take(deltas: readonly SeriesDelta[]): void {
    for (const delta of deltas) this.#takeOne(delta)
  }

  /** Removes the gauges of the process, which has ended. */
  close(): void {
    for (const values of this.#gauges) values.delete(this)
  }

  #takeOne(delta: SeriesDelta): void {
    const { index, name } = delta
    const { counterOf, stats } = this.#merged
    switch (delta.kind) {
      case 'counter':
        seriesAt(this.#counters, index, name, counterOf).value += delta.added
        break
      case 'gauge':
        seriesAt(this.#gauges, index, name, each => this.#merged.openGauge(each)).set(this, delta.value)
        break
      case 'durations':
        seriesAt(this.#histograms, index, name, stats.histogram).add(delta.counts, delta.sumMs)
    }
  }
}

/** Returns the series with this index. Its name is in this delta, or was in an earlier one. */
function seriesAt<T>(known: T[], index: number, name: string | undefined, find: (name: string) => T): T {
  const found = name === undefined ? known[index] : find(name)
  if (found === undefined) throw new Error(`a worker reported series ${index} before its name`)
  known[index] = found
  return found
}

/**
 * Returns a function that finds counters. Beyond the bound, further counters of limits are counted under the
 * name `overflow`, as in a worker.
 */
function boundedCounters(stats: Stats, maxSeries: number): (name: string) => StatCounter {
  const known = new Set<string>()
  return name => {
    if (!name.startsWith(limitPrefix) || known.has(name)) return stats.counter(name)
    if (known.size >= maxSeries) {
      return stats.counter(`${limitPrefix}overflow${name.slice(name.lastIndexOf('.'))}`)
    }
    known.add(name)
    return stats.counter(name)
  }
}
