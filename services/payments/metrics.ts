import { BoundedHistogram } from '@tollway/chassis/metrics/bounded-histogram.ts'
import {
  headerLines,
  histogramSamples,
  labelsText,
  sampleLine,
  sampleName,
} from '@tollway/chassis/metrics/exposition-format.ts'

export interface Metrics {
  /**
   * Registers a counter and returns the function that increases it, by 1 by default. Use few combinations of
   * labels: each one is kept for ever.
   */
  counter(name: string, help: string): (labels?: Labels, by?: number) => void
  /**
   * Registers a counter with the label `outcome`. Each of `outcomes` starts at 0, so that Prometheus sees the
   * first count as an increase.
   */
  outcomes<Outcome extends string>(
    name: string,
    help: string,
    outcomes: readonly Outcome[],
  ): (outcome: Outcome, by?: number) => void
  /**
   * Registers a gauge. `read` is called for each report, and returns a value, or a value for each set of
   * labels.
   */
  gauge(name: string, help: string, read: () => number | readonly LabelledValue[]): void
  /** Registers a histogram of durations, reported in seconds, and returns the function that records one. */
  histogram(name: string, help: string): (labels: Labels, ms: number) => void
  /** Returns all metrics in the text format of Prometheus. */
  expose(): string
  entries(): readonly (readonly [name: string, value: number])[]
}

type Labels = Readonly<Record<string, string>>
type LabelledValue = readonly [labels: Labels, value: number]

const bucketSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  samples(): Iterable<readonly [sample: string, value: number]>
}

export function createMetrics(): Metrics {
  const families: Family[] = []
  function counter(name: string, help: string) {
    const counts = new Map<string, number>()
    families.push({ name, help, type: 'counter', samples: () => counts })
    return (labels: Labels = {}, by = 1) => {
      const sample = toSampleName(name, labels)
      counts.set(sample, (counts.get(sample) ?? 0) + by)
    }
  }
  return {
    counter,
    outcomes(name, help, outcomes) {
      const count = counter(name, help)
      for (const outcome of outcomes) count({ outcome }, 0)
      return (outcome, by) => count({ outcome }, by)
    },
    gauge(name, help, read) {
      const samples = () => {
        const value = read()
        const labelled: readonly LabelledValue[] = typeof value === 'number' ? [[{}, value]] : value
        return labelled.map(([labels, one]) => [toSampleName(name, labels), one] as const)
      }
      families.push({ name, help, type: 'gauge', samples })
    },
    histogram(name, help) {
      const durations = new Map<string, BoundedHistogram>()
      const samples = () => [...durations].flatMap(([labels, all]) => [...sampleHistogram(name, labels, all)])
      families.push({ name, help, type: 'histogram', samples })
      return (labels, ms) => {
        const key = labelsText(Object.entries(labels))
        const all = durations.get(key) ?? new BoundedHistogram(bucketSeconds.map(bound => bound * 1000))
        durations.set(key, all)
        all.record(ms)
      }
    },
    expose: () => families.map(exposeFamily).join(''),
    entries: () =>
      families.flatMap(family => [...family.samples()]).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)),
  }
}

function sampleHistogram(name: string, labels: string, all: BoundedHistogram) {
  const numbers = { bounds: bucketSeconds, atMost: all.atMost(), count: all.count, sum: all.sum / 1000 }
  return histogramSamples(name, labels, numbers)
}

function toSampleName(name: string, labels: Labels): string {
  return sampleName(name, labelsText(Object.entries(labels)))
}

function exposeFamily({ name, help, type, samples }: Family): string {
  const lines = Array.from(samples(), ([sample, value]) => sampleLine(sample, '', value))
  return headerLines(name, type, help) + lines.join('')
}
