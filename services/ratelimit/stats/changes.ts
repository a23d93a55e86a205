import { histogramBuckets } from './histogram.ts'
import type { NamedCounter, NamedHistogram, Stats } from './stats.ts'

/** What happened to one series since it was last told. */
export type Change =
  | { readonly kind: 'counter'; readonly name: string; readonly added: number }
  | { readonly kind: 'gauge'; readonly name: string; readonly value: number }
  /** `counts` are the durations that were added, by bucket. */
  | { readonly kind: 'timer'; readonly name: string; readonly counts: Float64Array }

/**
 * Answers a function that goes once through all statistics and yields what changed; a gauge is always yielded,
 * as in the reference. A change is looked up when it is asked for, and counts as told from then on: whoever
 * stops asking loses nothing, because what was not asked for is part of the next pass.
 */
export function createChanges(stats: Stats): () => Generator<Change, undefined> {
  const toldCounters: number[] = []
  const toldHistograms: Float64Array[] = []
  return function* pass() {
    let place = 0
    for (const counter of stats.counters) {
      const added = addedTo(toldCounters, place, counter)
      place += 1
      if (added !== 0) yield { kind: 'counter', name: counter.name, added }
    }
    for (const { name, read } of stats.gauges) yield { kind: 'gauge', name, value: read() }
    for (const [place, histogram] of stats.histograms.entries()) {
      const counts = addedDurations(toldHistograms, place, histogram)
      if (counts !== undefined) yield { kind: 'timer', name: histogram.name, counts }
    }
    return undefined
  }
}

function addedTo(told: number[], place: number, { value }: NamedCounter): number {
  const added = value - (told[place] ?? 0)
  told[place] = value
  return added
}

function addedDurations(told: Float64Array[], place: number, { counts }: NamedHistogram) {
  const before = told[place] ?? new Float64Array(histogramBuckets)
  const added = counts.map((count, bucket) => count - (before[bucket] ?? 0))
  if (!added.some(count => count > 0)) return undefined
  told[place] = counts.slice()
  return added
}
