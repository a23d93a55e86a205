import { defaultBuckets, globPattern, type Mapping } from './mapping.ts'

/** The help texts of the metrics of a limit. */
const limitStats = {
  near_limit: 'Hits above the near-limit ratio but not above the limit.',
  over_limit: 'Hits above the limit.',
  total_hits: 'Hits of a limit.',
  within_limit: 'Hits that did not exceed the limit.',
  shadow_mode: 'Hits above the limit that were admitted by shadow mode.',
}

const limitPrefix = 'ratelimit.service.rate_limit'

/**
 * The specification's default mapping. The domain and at most two descriptors of a limit become labels;
 * deeper ones are summed. Unlike the reference's, every pattern is anchored: `x.over_limit_with_local_cache`
 * is not an `over_limit`.
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

/** Two descriptors or more. No part of the pattern can match in two ways, so it runs in linear time. */
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
