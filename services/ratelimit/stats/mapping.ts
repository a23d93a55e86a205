import { expandTemplate } from './pattern.ts'

export type MetricKind = 'counter' | 'gauge' | 'timer'

/** A rule that makes a labelled metric of a statistic, as statsd_exporter has them. */
export interface Mapping {
  /** Finds the name, and what stands for `$1`, `$2`, … in the templates. */
  readonly pattern: RegExp
  /** Applies to this kind only; to all without it. */
  readonly kind?: MetricKind
  /** The statistic is shown nowhere. */
  readonly drop: boolean
  /** Templates of the metric's name and of its labels' values. */
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
  readonly help: string
  /** The upper bounds of a timer's buckets, ascending, in the unit that is shown. */
  readonly buckets: readonly number[]
  /** What is shown is the value times this. */
  readonly scale: number
}

/** Those of the Prometheus client libraries; in seconds they suit answers over a network. */
export const defaultBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const

/** What a mapping makes of one statistic. */
export interface Mapped {
  readonly mapping: Mapping
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
}

/** The first mapping that applies. A `$n` that the pattern does not have is empty, as in statsd_exporter. */
export function applyMappings(
  mappings: readonly Mapping[],
  kind: MetricKind,
  statName: string,
): Mapped | undefined {
  for (const mapping of mappings) {
    if (mapping.kind !== undefined && mapping.kind !== kind) continue
    const groups = mapping.pattern.exec(statName)
    if (groups === null) continue
    const expand = (template: string) => expandTemplate(template, groups, () => '')
    const labels = new Map([...mapping.labels].map(([name, value]) => [name, expand(value)]))
    return { mapping, name: expand(mapping.name), labels }
  }
  return undefined
}

/**
 * The pattern of a glob: a `*` stands for one part of a name between two dots, and takes exactly one. It runs in
 * linear time by its form.
 */
export function globPattern(glob: string): RegExp {
  const parts = glob.split('.').map(part => (part === '*' ? '([^.]*)' : RegExp.escape(part)))
  return new RegExp(`^${parts.join('\\.')}$`)
}
