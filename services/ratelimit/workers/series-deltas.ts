import type { Gauge, NamedCounter, NamedHistogram, Stats } from '../stats/stats.ts'

/**
 * What happened to one series of a worker since it was last told. `place` is where the series stands in the
 * worker's list of its kind; the name is told with the first delta only, which comes even when all is 0.
 */
export type SeriesDelta = CounterDelta | GaugeValue | DurationsDelta

interface OfSeries {
  readonly place: number
  readonly name?: string
}

export interface CounterDelta extends OfSeries {
  readonly kind: 'counter'
  readonly added: number
}

export interface GaugeValue extends OfSeries {
  readonly kind: 'gauge'
  readonly value: number
}

export interface DurationsDelta extends OfSeries {
  readonly kind: 'durations'
  /** How many were added, for each bucket that has new ones. */
  readonly counts: readonly (readonly [bucket: number, count: number])[]
  /** Of those that were added, together. */
  readonly sumMs: number
}

/**
 * Answers a function that goes once through all statistics and yields what changed. A delta counts as told when
 * it is yielded.
 */
export function createSeriesDeltas(stats: Stats): () => Generator<SeriesDelta, undefined> {
  const counters: number[] = []
  const gauges: number[] = []
  const histograms: ToldHistogram[] = []
  return function* pass() {
    let place = 0
    for (const counter of stats.counters) {
      const delta = counterDelta(counters, place, counter)
      place += 1
      if (delta !== undefined) yield delta
    }
    for (const [place, gauge] of stats.gauges.entries()) {
      const delta = gaugeValue(gauges, place, gauge)
      if (delta !== undefined) yield delta
    }
    for (const [place, histogram] of stats.histograms.entries()) {
      const delta = durationsDelta(histograms, place, histogram)
      if (delta !== undefined) yield delta
    }
    return undefined
  }
}

function counterDelta(told: number[], place: number, counter: NamedCounter): CounterDelta | undefined {
  const { value } = counter
  const before = told[place]
  if (value === before) return undefined
  told[place] = value
  if (before === undefined) return { kind: 'counter', place, name: counter.name, added: value }
  return { kind: 'counter', place, added: value - before }
}

function gaugeValue(told: number[], place: number, { name, read }: Gauge): GaugeValue | undefined {
  const value = read()
  const before = told[place]
  if (value === before) return undefined
  told[place] = value
  return before === undefined ? { kind: 'gauge', place, name, value } : { kind: 'gauge', place, value }
}

interface ToldHistogram {
  readonly counts: Float64Array
  count: number
  sumMs: number
}

function durationsDelta(
  told: ToldHistogram[],
  place: number,
  histogram: NamedHistogram,
): DurationsDelta | undefined {
  const { name } = histogram
  const before = told[place]
  if (before === undefined) {
    const nothing = { counts: new Float64Array(histogram.counts.length), count: 0, sumMs: 0 }
    told[place] = nothing
    return { kind: 'durations', place, name, ...takeDurations(nothing, histogram) }
  }
  if (histogram.count() === before.count) return undefined
  return { kind: 'durations', place, ...takeDurations(before, histogram) }
}

function takeDurations(before: ToldHistogram, histogram: NamedHistogram) {
  const counts: (readonly [number, number])[] = []
  for (const [bucket, count] of histogram.counts.entries()) {
    const added = count - (before.counts[bucket] ?? 0)
    if (added === 0) continue
    counts.push([bucket, added])
    before.counts[bucket] = count
  }
  const sumMs = histogram.sumMs() - before.sumMs
  before.count = histogram.count()
  before.sumMs = histogram.sumMs()
  return { counts, sumMs }
}
