import {
  expositionType,
  headerLines,
  histogramSamples,
  labelsText,
  sampleLine,
} from '@tollway/chassis/metrics/exposition-format.ts'
import { countsAtMost } from '@tollway/chassis/metrics/histogram.ts'
import {
  applyMappings,
  defaultBuckets,
  type Mapped,
  type Mapping,
  type MetricKind,
} from '../mapping/mapping.ts'
import type { Gauge, NamedCounter, NamedHistogram, Stats } from '../stats.ts'
import { splitOwnTags } from './sink.ts'

export interface Exposition {
  readonly contentType: string
  /** The text as pieces of bytes: joining or garbage-collecting a large one would block the event loop. */
  readonly pieces: readonly Buffer[]
}

interface ExpositionOptions {
  readonly stats: Stats
  readonly mappings: readonly Mapping[]
  /** Labels of every metric; a mapping's label with the same name takes precedence. */
  readonly extraTags: ReadonlyMap<string, string>
  /**
   * Whether timers are in milliseconds. If not, they are in seconds, as the names in the default mapping say.
   */
  readonly timersInMilliseconds: boolean
  onProblem(message: string): void
}

/** The number of series that are written in one turn of the event loop, before decisions run again. */
const seriesPerTurn = 500

/**
 * Returns a function that writes all statistics as Prometheus metrics. The mapping of a name is computed once
 * and cached. Statistics without a mapping keep their name, with `_` for invalid characters, and appear as
 * soon as they are not 0: a limit without hits needs no metrics. Statistics with the same metric and labels
 * after mapping are summed.
 */
export function createExposition(options: ExpositionOptions): () => Promise<Exposition> {
  const register = createFamilies(options)
  const write = async () => {
    await register.update()
    const pieces: Buffer[] = []
    for (const family of register.families.values()) await writeFamily(family, pieces)
    return { contentType: expositionType, pieces }
  }
  let running: Promise<Exposition> | undefined
  return () => {
    // Concurrent scrapes share one answer, so that they do not take more turns of the event loop than one
    // scrape.
    running ??= write().finally(() => {
      running = undefined
    })
    return running
  }
}

/** A metric with all its samples, which must be consecutive in the text. */
interface Family {
  readonly name: string
  readonly kind: MetricKind
  readonly help: string
  readonly series: Map<string, Series>
}

interface Series {
  readonly labels: string
  readonly sources: Source[]
  readonly mapped: boolean
  /** The factor by which a value is multiplied before it is reported. */
  readonly scale: number
  readonly buckets: readonly number[]
}

type Source = NamedCounter | Gauge | NamedHistogram

function createFamilies({ stats, mappings, extraTags, timersInMilliseconds, onProblem }: ExpositionOptions) {
  const families = new Map<string, Family>()
  /** The families by all names of their samples: a histogram has several names. */
  const taken = new Map<string, Family>()
  const extraLabels = [...extraTags].map(([name, value]) => [labelName(name), value] as const)
  const sources: readonly (readonly [MetricKind, Pick<readonly Source[], 'length' | 'at'>])[] = [
    ['counter', stats.counters],
    ['gauge', stats.gauges],
    ['timer', stats.histograms],
  ]
  const known = new Map<MetricKind, number>()
  const reported = new Set<string>()

  const findFamily = (kind: MetricKind, name: string, help: string): Family | undefined => {
    const found = families.get(name)
    if (found?.kind === kind) return found
    const names = kind === 'timer' ? ['', '_bucket', '_sum', '_count'].map(suffix => name + suffix) : [name]
    const other = names.map(sample => taken.get(sample)).find(family => family !== undefined)
    if (other !== undefined || name === '') return undefined
    const family: Family = { name, kind, help, series: new Map() }
    for (const sample of names) taken.set(sample, family)
    families.set(name, family)
    return family
  }
  const add = (kind: MetricKind, source: Source) => {
    const own = splitOwnTags(source.name)
    const mapped = applyMappings(mappings, kind, own.name)
    if (mapped?.mapping.drop) return
    const name = metricName(mapped?.name ?? own.name)
    const family = findFamily(kind, name, chooseHelp(mapped))
    if (family === undefined) {
      // `reported` stays small: each name in it is empty or the name of another metric.
      if (reported.has(name)) return
      reported.add(name)
      onProblem(`the ${kind} ${source.name} is not exposed: its metric name "${name}" is in use or empty`)
      return
    }
    const labels = sortedLabels(new Map([...extraLabels, ...own.tags, ...(mapped?.labels ?? [])]))
    const series = family.series.get(labels)
    if (series !== undefined) {
      series.sources.push(source)
      return
    }
    const unit = kind === 'timer' && !timersInMilliseconds ? 0.001 : 1
    family.series.set(labels, {
      labels,
      sources: [source],
      mapped: mapped !== undefined,
      scale: unit * (mapped?.mapping.scale ?? 1),
      buckets: mapped?.mapping.buckets ?? defaultBuckets,
    })
  }
  return {
    families,
    async update() {
      for (const [kind, list] of sources) {
        for (let index = known.get(kind) ?? 0; index < list.length; index++) {
          const source = list.at(index)
          if (source !== undefined) add(kind, source)
          known.set(kind, index + 1)
          if (index % seriesPerTurn === 0) await yieldToEventLoop()
        }
      }
    },
  }
}

function chooseHelp(mapped: Mapped | undefined): string {
  return mapped?.mapping.help || 'A statistic of the rate limit service.'
}

/** Converts any text to the name of a metric, as envoyproxy/ratelimit does: invalid characters become `_`. */
function metricName(text: string): string {
  const name = text.replace(/[^a-zA-Z0-9_]/g, '_')
  return /^[0-9]/.test(name) ? `_${name}` : name
}

/** Formats labels in the order of their names. A label without a value is left out. */
function sortedLabels(labels: ReadonlyMap<string, string>): string {
  return labelsText([...labels].filter(([, value]) => value !== '').sort(([a], [b]) => (a < b ? -1 : 1)))
}

/** Converts any text to a label name that is not reserved by Prometheus. */
function labelName(text: string): string {
  const name = metricName(text)
  return name.startsWith('__') || name === 'le' ? `tag_${name}` : name
}

async function writeFamily({ name, kind, help, series }: Family, pieces: Buffer[]): Promise<void> {
  let header = headerLines(name, kind === 'timer' ? 'histogram' : kind, help)
  let piece = ''
  let read = 0
  for (const one of series.values()) {
    const lines = kind === 'timer' ? histogramLines(name, one) : valueLine(name, one)
    if (lines !== '') piece += header + lines
    if (lines !== '') header = ''
    read += 1
    if (read % seriesPerTurn > 0) continue
    pieces.push(Buffer.from(piece))
    piece = ''
    await yieldToEventLoop()
  }
  pieces.push(Buffer.from(piece))
}

function valueLine(name: string, { labels, sources, mapped, scale }: Series): string {
  let value = 0
  for (const source of sources) {
    if ('value' in source) value += source.value
    else if ('read' in source) value += source.read()
  }
  return value === 0 && !mapped ? '' : sampleLine(name, labels, value * scale)
}

function histogramLines(name: string, { labels, sources, scale, buckets }: Series): string {
  const bounds = buckets.map(bound => bound / scale)
  const totals = bounds.map(() => 0)
  let count = 0
  let sumMs = 0
  for (const source of sources) {
    if (!('counts' in source)) continue
    for (const [index, atMost] of countsAtMost(source.counts, bounds).entries()) {
      totals[index] = (totals[index] ?? 0) + atMost
    }
    count += source.count
    sumMs += source.sumMs
  }
  const numbers = { bounds: buckets, atMost: totals, count, sum: sumMs * scale }
  let lines = ''
  for (const [sample, value] of histogramSamples(name, labels, numbers))
    lines += sampleLine(sample, '', value)
  return lines
}

function yieldToEventLoop(): Promise<void> {
  return new Promise(resolve => setImmediate(resolve))
}
