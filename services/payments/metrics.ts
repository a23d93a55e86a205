/** The metrics of this process, in Prometheus' text format and as `name: value` lines. */
export interface Metrics {
  /** Each count has its labels as names and values. Their combinations are few. */
  counter(name: string, help: string): (labels?: Labels, by?: number) => void
  /** The exposition calls `read`, which returns one value, or one for each set of labels. */
  gauge(name: string, help: string, read: () => number | readonly LabelledValue[]): void
  /** Durations in milliseconds; exposed in seconds, the base unit of Prometheus. */
  histogram(name: string, help: string): (labels: Labels, ms: number) => void
  /** The exposition, whose media type is `expositionType`. */
  expose(): string
  /** Every sample, sorted by name. */
  entries(): readonly (readonly [name: string, value: number])[]
}

export type Labels = Readonly<Record<string, string>>
export type LabelledValue = readonly [labels: Labels, value: number]

export const expositionType = 'text/plain; version=0.0.4; charset=utf-8'

const bucketSeconds = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10]

interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  samples(): Iterable<readonly [sample: string, value: number]>
}

interface Distribution {
  /** One more than there are bounds: the last count is for values above all bounds. */
  readonly counts: number[]
  sumMs: number
}

export function createMetrics(): Metrics {
  const families: Family[] = []
  return {
    counter(name, help) {
      const counts = new Map<string, number>()
      families.push({ name, help, type: 'counter', samples: () => counts })
      return (labels = {}, by = 1) => {
        const sample = sampleName(name, labels)
        counts.set(sample, (counts.get(sample) ?? 0) + by)
      }
    },
    gauge(name, help, read) {
      const samples = () => {
        const value = read()
        const labelled: readonly LabelledValue[] = typeof value === 'number' ? [[{}, value]] : value
        return labelled.map(([labels, one]) => [sampleName(name, labels), one] as const)
      }
      families.push({ name, help, type: 'gauge', samples })
    },
    histogram(name, help) {
      const distributions = new Map<string, { readonly labels: Labels; readonly all: Distribution }>()
      const samples = () =>
        [...distributions.values()].flatMap(({ labels, all }) => buckets(name, labels, all))
      families.push({ name, help, type: 'histogram', samples })
      return (labels, ms) => {
        const key = sampleName(name, labels)
        const { all } = distributions.get(key) ?? { all: emptyDistribution() }
        distributions.set(key, { labels, all })
        const bucket = bucketSeconds.findIndex(bound => ms <= bound * 1000)
        const index = bucket === -1 ? bucketSeconds.length : bucket
        all.counts[index] = (all.counts[index] ?? 0) + 1
        all.sumMs += ms
      }
    },
    expose: () => families.map(exposeFamily).join(''),
    entries: () =>
      families.flatMap(family => [...family.samples()]).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)),
  }
}

function emptyDistribution(): Distribution {
  return { counts: new Array<number>(bucketSeconds.length + 1).fill(0), sumMs: 0 }
}

function buckets(name: string, labels: Labels, { counts, sumMs }: Distribution): [string, number][] {
  let total = 0
  const atMost = counts.map((count, index): [string, number] => {
    total += count
    const le = String(bucketSeconds[index] ?? '+Inf')
    return [sampleName(`${name}_bucket`, { ...labels, le }), total]
  })
  return [
    ...atMost,
    [sampleName(`${name}_sum`, labels), sumMs / 1000],
    [sampleName(`${name}_count`, labels), total],
  ]
}

function sampleName(name: string, labels: Labels): string {
  const pairs = Object.entries(labels).map(([label, value]) => `${label}="${escapeLabel(value)}"`)
  return pairs.length === 0 ? name : `${name}{${pairs.join(',')}}`
}

function escapeLabel(value: string): string {
  return value.replace(/[\\"\n]/g, found => (found === '\n' ? '\\n' : `\\${found}`))
}

function exposeFamily({ name, help, type, samples }: Family): string {
  const lines = [...samples()].map(([sample, value]) => `${sample} ${value}\n`)
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}
