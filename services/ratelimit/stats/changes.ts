import { histogramBuckets } from '@tollway/chassis/metrics/histogram.ts'
import type { NamedCounter, NamedHistogram, Stats } from './stats.ts'

/** The change of one series since it was last reported. */
export type SeriesChange =
  | { readonly kind: 'counter'; readonly name: string; readonly added: number }
  | { readonly kind: 'gauge'; readonly name: string; readonly value: number }
  /** `counts` are the added durations, by bucket. */
  | { readonly kind: 'timer'; readonly name: string; readonly counts: Float64Array }

/**
 * Returns a function that iterates once over all statistics and yields the changes; a gauge is always
 * yielded, as in the reference. A change is computed when it is yielded, and counts as reported from then on.
 * If an iteration ends early, the next one yields the remaining changes.
 */
export function createChanges(stats: Stats): () => Generator<SeriesChange, undefined> {
  const reportedCounters: number[] = []
  const reportedHistograms: Float64Array[] = []
  return function* pass() {
    let place = 0
    for (const counter of stats.counters) {
      const added = addedTo(reportedCounters, place, counter)
      place += 1
      if (added !== 0) yield { kind: 'counter', name: counter.name, added }
    }
    for (const { name, read } of stats.gauges) yield { kind: 'gauge', name, value: read() }
    for (const [place, histogram] of stats.histograms.entries()) {
      const counts = addedDurations(reportedHistograms, place, histogram)
      if (counts !== undefined) yield { kind: 'timer', name: histogram.name, counts }
    }
    return undefined
  }
}

function addedTo(reported: number[], place: number, { value }: NamedCounter): number {
  const added = value - (reported[place] ?? 0)
  reported[place] = value
  return added
}

function addedDurations(reported: Float64Array[], place: number, { counts }: NamedHistogram) {
  const before = reported[place] ?? new Float64Array(histogramBuckets)
  const added = counts.map((count, bucket) => count - (before[bucket] ?? 0))
  if (!added.some(count => count > 0)) return undefined
  reported[place] = counts.slice()
  return added
}
