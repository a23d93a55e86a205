import { expandTemplate } from './pattern.ts'

export type MetricKind = 'counter' | 'gauge' | 'timer'

/** A rule that converts a statistic to a labelled metric, as in statsd_exporter. */
export interface Mapping {
  /** Matches the name; its groups replace `$1`, `$2`, … in the templates. */
  readonly pattern: RegExp
  /** The kind to which the mapping applies; all kinds when left out. */
  readonly kind?: MetricKind
  /** Whether statistics that match are left out of the metrics. */
  readonly drop: boolean
  readonly name: string
  /** The template of each label's value, by the name of the label. */
  readonly labels: ReadonlyMap<string, string>
  readonly help: string
  /** The upper bounds of a timer's buckets, ascending, in the reported unit. */
  readonly buckets: readonly number[]
  /** The factor by which a value is multiplied before it is reported. */
  readonly scale: number
}

/** The default of the Prometheus client libraries. As seconds, they suit answers over a network. */
export const defaultBuckets = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10] as const

export interface Mapped {
  readonly mapping: Mapping
  readonly name: string
  readonly labels: ReadonlyMap<string, string>
}

/**
 * Applies the first mapping that matches; returns undefined if none does. A `$n` without a group is empty, as
 * in statsd_exporter.
 */
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

/** A `*` matches exactly one part of a name between two dots. The pattern runs in linear time. */
export function globPattern(glob: string): RegExp {
  const parts = glob.split('.').map(part => (part === '*' ? '([^.]*)' : RegExp.escape(part)))
  return new RegExp(`^${parts.join('\\.')}$`)
}

const limitStats = {
  near_limit: 'Hits above the near-limit ratio but not above the limit.',
  over_limit: 'Hits above the limit.',
  total_hits: 'Hits of a limit.',
  within_limit: 'Hits that did not exceed the limit.',
  shadow_mode: 'Hits above the limit that were admitted by shadow mode.',
}

const limitPrefix = 'ratelimit.service.rate_limit'

/**
 * The default mapping. The domain and at most two descriptors of a limit become labels; limits that differ
 * only in deeper descriptors are summed. Unlike in envoyproxy/ratelimit, every pattern is anchored:
 * `x.over_limit_with_local_cache` is not an `over_limit`.
 */
export const defaultMappings: readonly Mapping[] = [
  ...Object.entries(limitStats).flatMap(([stat, help]) => {
    const name = `ratelimit_service_rate_limit_${stat}`
    return [
      mapping(globPattern(`${limitPrefix}.*.*.${stat}`), name, { domain: '$1', key1: '$2' }, help),
      mapping(deepPattern(stat), name, { domain: '$1', key1: '$2', key2: '$3' }, help),
    ]
  }),
  mapping(
    globPattern('ratelimit.service.call.should_rate_limit.*'),
    'ratelimit_service_should_rate_limit_error',
    { err_type: '$1' },
    'Calls that were answered with an error.',
  ),
  mapping(
    globPattern('ratelimit_server.*.total_requests'),
    'ratelimit_service_total_requests',
    { grpc_method: '$1' },
    'Calls of a gRPC method.',
  ),
  mapping(
    globPattern('ratelimit_server.*.response_time'),
    'ratelimit_service_response_time_seconds',
    { grpc_method: '$1' },
    'The response time of a gRPC method.',
  ),
  mapping(
    globPattern('ratelimit.service.config_load_success'),
    'ratelimit_service_config_load_success',
    {},
    'Configurations that were loaded.',
  ),
  mapping(
    globPattern('ratelimit.service.config_load_error'),
    'ratelimit_service_config_load_error',
    {},
    'Configurations that were rejected.',
  ),
]

/**
 * Returns the pattern of a statistic for limits with two or more descriptors. No part of the pattern can
 * match in two ways, so it runs in linear time.
 */
function deepPattern(stat: string): RegExp {
  const part = '([^.]*)'
  return new RegExp(`^ratelimit\\.service\\.rate_limit\\.${part}\\.${part}\\.${part}(?:\\.[^]*)?\\.${stat}$`)
}

function mapping(
  pattern: RegExp,
  name: string,
  labels: Readonly<Record<string, string>>,
  help: string,
): Mapping {
  const table = new Map(Object.entries(labels))
  return { pattern, drop: false, name, labels: table, help, buckets: defaultBuckets, scale: 1 }
}
