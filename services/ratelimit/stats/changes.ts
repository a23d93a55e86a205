import { histogramBuckets } from '@tollway/chassis/metrics/histogram.ts'
import type { NamedCounter, NamedHistogram, Stats } from './stats.ts'

/** The change of one series since it was last reported. */
export type SeriesChange =
  | { readonly kind: 'counter'; readonly name: string; readonly added: number }
  | { readonly kind: 'gauge'; readonly name: string; readonly value: number }
  /** `counts` is the number of added durations in each bucket. */
  | { readonly kind: 'timer'; readonly name: string; readonly counts: Float64Array }

/**
 * Returns a function that iterates once over all statistics and yields the changes. As in
 * envoyproxy/ratelimit, every gauge is yielded, even if it has not changed. A change is computed when it is
 * yielded, and counts as reported from then on. If an iteration ends early, the next one yields the remaining
 * changes.
 */
export function createChanges(stats: Stats): () => Generator<SeriesChange, undefined> {
  const reportedCounters: number[] = []
  const reportedHistograms: Float64Array[] = []
  return function* pass() {
    let index = 0
    for (const counter of stats.counters) {
      const added = addedTo(reportedCounters, index, counter)
      index += 1
      if (added !== 0) yield { kind: 'counter', name: counter.name, added }
    }
    for (const { name, read } of stats.gauges) yield { kind: 'gauge', name, value: read() }
    for (const [index, histogram] of stats.histograms.entries()) {
      const counts = addedDurations(reportedHistograms, index, histogram)
      if (counts !== undefined) yield { kind: 'timer', name: histogram.name, counts }
    }
    return undefined
  }
}

function addedTo(reported: number[], index: number, { value }: NamedCounter): number {
  const added = value - (reported[index] ?? 0)
  reported[index] = value
  return added
}

function addedDurations(reported: Float64Array[], index: number, { counts }: NamedHistogram) {
  const before = reported[index] ?? new Float64Array(histogramBuckets)
  const added = counts.map((count, bucket) => count - (before[bucket] ?? 0))
  if (!added.some(count => count > 0)) return undefined
  reported[index] = counts.slice()
  return added
}
