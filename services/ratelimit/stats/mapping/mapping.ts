import { expandTemplate } from './pattern.ts'

export type MetricKind = 'counter' | 'gauge' | 'timer'

/** A rule that converts a statistic to a labelled metric, as in statsd_exporter. */
export interface Mapping {
  /** Matches the name; its groups replace `$1`, `$2`, … in the templates. */
  readonly pattern: RegExp
  /** The kind to which the mapping applies; all kinds when left out. */
  readonly kind?: MetricKind
  /** The statistic is not exposed. */
  readonly drop: boolean
  /** The templates of the metric's name and of its labels' values. */
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
  readonly help: string
  /** The upper bounds of a timer's buckets, ascending, in the reported unit. */
  readonly buckets: readonly number[]
  /** The factor from the value to the reported one. */
  readonly scale: number
}

/** The buckets of the Prometheus client libraries; in seconds they suit answers over a network. */
export const defaultBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const

/** A statistic after mapping. */
export interface Mapped {
  readonly mapping: Mapping
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
}

/** Applies the first matching mapping. A `$n` without a group is empty, as in statsd_exporter. */
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
 * Returns the pattern of a glob: a `*` matches exactly one part of a name between two dots. It runs in linear
 * time.
 */
export function globPattern(glob: string): RegExp {
  const parts = glob.split('.').map(part => (part === '*' ? '([^.]*)' : RegExp.escape(part)))
  return new RegExp(`^${parts.join('\\.')}$`)
}
