import type { Gauge, NamedCounter, NamedHistogram, Stats } from '../stats/stats.ts'

/**
 * The change of one series of a worker since the last report. `index` is the index of the series in the
 * worker's list of series of that kind. Only the first delta of a series has the name; it is sent even if all
 * values are 0.
 */
export type SeriesDelta = CounterDelta | GaugeValue | DurationsDelta

interface OfSeries {
  readonly index: number
  readonly name?: string
}

interface CounterDelta extends OfSeries {
  readonly kind: 'counter'
  readonly added: number
}

interface GaugeValue extends OfSeries {
  readonly kind: 'gauge'
  readonly value: number
}

interface DurationsDelta extends OfSeries {
  readonly kind: 'durations'
  /** For each bucket with new durations, the number of these. */
  readonly counts: readonly (readonly [bucket: number, count: number])[]
  /** The sum of the new durations in milliseconds. */
  readonly sumMs: number
}

/**
 * Returns a function that iterates once over all statistics and yields those that have changed. A change
 * counts as reported when it is yielded.
 */
export function createSeriesDeltas(stats: Stats): () => Generator<SeriesDelta, undefined> {
  const counters: number[] = []
  const gauges: number[] = []
  const histograms: ReportedHistogram[] = []
  return function* pass() {
    let index = 0
    for (const counter of stats.counters) {
      const delta = counterDelta(counters, index, counter)
      index += 1
      if (delta !== undefined) yield delta
    }
    for (const [index, gauge] of stats.gauges.entries()) {
      const delta = gaugeValue(gauges, index, gauge)
      if (delta !== undefined) yield delta
    }
    for (const [index, histogram] of stats.histograms.entries()) {
      const delta = durationsDelta(histograms, index, histogram)
      if (delta !== undefined) yield delta
    }
    return undefined
  }
}

function counterDelta(reported: number[], index: number, counter: NamedCounter): CounterDelta | undefined {
  const { value } = counter
  const before = reported[index]
  if (value === before) return undefined
  reported[index] = value
  if (before === undefined) return { kind: 'counter', index, name: counter.name, added: value }
  return { kind: 'counter', index, added: value - before }
}

function gaugeValue(reported: number[], index: number, { name, read }: Gauge): GaugeValue | undefined {
  const value = read()
  const before = reported[index]
  if (value === before) return undefined
  reported[index] = value
  return before === undefined ? { kind: 'gauge', index, name, value } : { kind: 'gauge', index, value }
}

interface ReportedHistogram {
  readonly counts: Float64Array
  count: number
  sumMs: number
}

function durationsDelta(
  reported: ReportedHistogram[],
  index: number,
  histogram: NamedHistogram,
): DurationsDelta | undefined {
  const { name } = histogram
  const before = reported[index]
  if (before === undefined) {
    const nothing = { counts: new Float64Array(histogram.counts.length), count: 0, sumMs: 0 }
    reported[index] = nothing
    return { kind: 'durations', index, name, ...takeDurations(nothing, histogram) }
  }
  if (histogram.count === before.count) return undefined
  return { kind: 'durations', index, ...takeDurations(before, histogram) }
}

function takeDurations(before: ReportedHistogram, histogram: NamedHistogram) {
  const counts: (readonly [number, number])[] = []
  for (const [bucket, count] of histogram.counts.entries()) {
    const added = count - (before.counts[bucket] ?? 0)
    if (added === 0) continue
    counts.push([bucket, added])
    before.counts[bucket] = count
  }
  const sumMs = histogram.sumMs - before.sumMs
  before.count = histogram.count
  before.sumMs = histogram.sumMs
  return { counts, sumMs }
}
