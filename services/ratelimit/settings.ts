import {
  boolean,
  decimal,
  durationAtLeast,
  durationMs,
  hostPort,
  integer,
  type Kind,
  oneOf,
  pairs,
  type SettingProblem,
  settingsTable,
  text,
  type Values,
} from '@tollway/chassis/settings.ts'

const port = integer(0, 65_535)
/** For what is done again and again: in less it would be done all the time. */
const atLeast10Ms = durationAtLeast(10)

const booleanOrUnset: Kind<boolean | ''> = {
  allowed: `${boolean.allowed}, or nothing`,
  parse: value => (value === '' ? '' : boolean.parse(value)),
}

const variableNames: Kind<readonly string[]> = {
  allowed: 'a list such as ONE,TWO of letters, digits and _',
  parse(value) {
    const names = value === '' ? [] : value.split(',').map(name => name.trim())
    return names.every(name => /^\w+$/.test(name)) ? names : undefined
  },
}

const urlPath: Kind<string> = {
  allowed: 'a path such as /metrics',
  parse: value => (/^\/[^?#\s]*$/.test(value) ? value : undefined),
}

/**
 * Every setting of the rate limit service, under the specification's name; aliases are the reference's names.
 */
export const settings = settingsTable({
  configType: {
    name: 'CONFIG_TYPE',
    kind: oneOf('FILE', 'GRPC_XDS_SOTW'),
    fallback: 'FILE',
    help: 'Where the configuration comes from: files, or a management server.',
  },
  forceStart: {
    name: 'FORCE_START_WITHOUT_INITIAL_CONFIG',
    kind: boolean,
    fallback: 'false',
    help: 'Serve before the first configuration is there; every call is an error until then.',
  },
  runtimeRoot: {
    name: 'RUNTIME_ROOT',
    kind: text,
    fallback: '/srv/runtime_data/current',
    help: 'The root that is watched.',
  },
  runtimeSubdirectory: {
    name: 'RUNTIME_SUBDIRECTORY',
    kind: text,
    fallback: '',
    help: 'A folder below the root.',
  },
  runtimeAppDirectory: {
    name: 'RUNTIME_APPDIRECTORY',
    kind: text,
    fallback: 'config',
    help: 'The folder of YAML files below that.',
  },
  runtimeIgnoreDotFiles: {
    name: 'RUNTIME_IGNOREDOTFILES',
    kind: boolean,
    fallback: 'false',
    help: 'Leave out files and folders whose name begins with a dot.',
  },
  runtimeWatchRoot: {
    name: 'RUNTIME_WATCH_ROOT',
    kind: boolean,
    fallback: 'true',
    help: 'Reload when the root, a symbolic link, is swapped; otherwise when a file changes.',
  },
  mergeDomainConfigs: {
    name: 'MERGE_DOMAIN_CONFIG',
    kind: boolean,
    fallback: 'false',
    help: 'Several files may share a domain.',
  },
  xdsNodeId: {
    name: 'CONFIG_GRPC_XDS_NODE_ID',
    kind: text,
    fallback: 'default',
    help: 'Who this process is to the management server.',
  },
  xdsNodeMetadata: {
    name: 'CONFIG_GRPC_XDS_NODE_METADATA',
    kind: pairs,
    fallback: '',
    help: 'More about this process, as texts in node.metadata.',
  },
  xdsServer: {
    name: 'CONFIG_GRPC_XDS_SERVER_URL',
    kind: hostPort,
    fallback: 'localhost:18000',
    help: 'The management server.',
  },
  xdsConnectRetryMs: {
    name: 'CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL',
    kind: atLeast10Ms,
    fallback: '3s',
    help: 'The wait between tries while there was no connection yet.',
  },
  xdsBackoffJitter: {
    name: 'XDS_CLIENT_BACKOFF_JITTER',
    kind: boolean,
    fallback: 'true',
    help: 'Spread the waits by chance.',
  },
  xdsBackoffInitialMs: {
    name: 'XDS_CLIENT_BACKOFF_INITIAL_INTERVAL',
    kind: atLeast10Ms,
    fallback: '10s',
    help: 'The first wait after a stream ended.',
  },
  xdsBackoffMaxMs: {
    name: 'XDS_CLIENT_BACKOFF_MAX_INTERVAL',
    kind: atLeast10Ms,
    fallback: '60s',
    help: 'The longest wait.',
  },
  xdsBackoffFactor: {
    name: 'XDS_CLIENT_BACKOFF_RANDOM_FACTOR',
    kind: decimal(0, 10),
    fallback: '0.5',
    help: 'The next wait is the last one times 1 plus this.',
  },
  xdsMaxMessageBytes: {
    name: 'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES',
    kind: integer(0, 1 << 30),
    fallback: '0',
    help: 'The largest configuration that is taken; 0 for 64 MiB.',
  },
  host: { name: 'HOST', kind: text, fallback: '0.0.0.0', help: 'The address of the HTTP server.' },
  port: { name: 'PORT', kind: port, fallback: '8080', help: 'The port of the HTTP server.' },
  grpcHost: { name: 'GRPC_HOST', kind: text, fallback: '0.0.0.0', help: 'The address of the gRPC server.' },
  grpcPort: { name: 'GRPC_PORT', kind: port, fallback: '8081', help: 'The port of the gRPC server.' },
  grpcUnixSocket: {
    name: 'GRPC_UDS',
    kind: text,
    fallback: '',
    help: 'The path of a unix socket, which then replaces the port.',
  },
  grpcMaxConnectionAgeMs: {
    name: 'GRPC_MAX_CONNECTION_AGE',
    kind: durationMs,
    fallback: '24h',
    help: 'A connection older than this, give or take 10 %, is told to go.',
  },
  grpcMaxConnectionAgeGraceMs: {
    name: 'GRPC_MAX_CONNECTION_AGE_GRACE',
    kind: durationMs,
    fallback: '1h',
    help: 'After that long more it is closed.',
  },
  debugHost: {
    name: 'DEBUG_HOST',
    kind: text,
    fallback: '0.0.0.0',
    help: 'The address of the debug server.',
  },
  debugPort: { name: 'DEBUG_PORT', kind: port, fallback: '6070', help: 'The port of the debug server.' },
  reusePort: {
    name: 'REUSE_PORT',
    kind: boolean,
    fallback: 'false',
    help: 'Share the gRPC and HTTP ports with other processes of this service on the machine.',
  },
  drainDelayMs: {
    name: 'DRAIN_DELAY',
    kind: durationMs,
    fallback: '5s',
    help: 'How long calls are taken after SIGTERM, while the process is unhealthy: callers must notice.',
  },
  drainTimeoutMs: {
    name: 'DRAIN_TIMEOUT',
    kind: durationMs,
    fallback: '10s',
    help: 'How long running calls may take after that.',
  },
  logLevel: {
    name: 'LOG_LEVEL',
    kind: oneOf('debug', 'info', 'warn', 'warning', 'error'),
    fallback: 'warn',
    help: 'What is logged.',
  },
  logFormat: {
    name: 'LOG_FORMAT',
    kind: oneOf('text', 'json'),
    fallback: 'text',
    help: 'The shape of log lines.',
  },
  backendType: {
    name: 'BACKEND_TYPE',
    kind: oneOf('redis', 'memory'),
    fallback: 'redis',
    help: 'Where counters are kept. `memory` counts in this process alone.',
  },
  backendDeadlineMs: {
    name: 'BACKEND_DEADLINE',
    kind: durationAtLeast(1),
    fallback: '15ms',
    help: 'A call whose counters did not answer within this is an error.',
  },
  redisSocketType: {
    name: 'KVSTORE_SOCKET_TYPE',
    aliases: ['REDIS_SOCKET_TYPE'],
    kind: oneOf('unix', 'tcp'),
    fallback: 'unix',
    help: 'How Redis is reached.',
  },
  redisUrl: {
    name: 'KVSTORE_URL',
    aliases: ['REDIS_URL'],
    kind: text,
    fallback: '/var/run/nutcracker/ratelimit.sock',
    help: 'host:port, the path of a unix socket, or a redis:// URL.',
    secret: true,
  },
  redisType: {
    name: 'KVSTORE_TYPE',
    aliases: ['REDIS_TYPE'],
    kind: oneOf('single'),
    fallback: 'single',
    help: 'How the Redis servers stand together.',
  },
  redisAuth: {
    name: 'KVSTORE_AUTH',
    aliases: ['REDIS_AUTH'],
    kind: text,
    fallback: '',
    help: '`password`, or `user:password`.',
    secret: true,
  },
  redisPipelineWindowMs: {
    name: 'KVSTORE_PIPELINE_WINDOW',
    aliases: ['REDIS_PIPELINE_WINDOW'],
    kind: durationMs,
    fallback: '0',
    help: 'How long commands are collected before they are written; 0 for one turn of the event loop.',
  },
  redisPipelineLimit: {
    name: 'KVSTORE_PIPELINE_LIMIT',
    aliases: ['REDIS_PIPELINE_LIMIT'],
    kind: integer(0, 1_000_000),
    fallback: '0',
    help: 'So many collected commands are written at once, before the window is over; 0 for no such limit.',
  },
  cacheKeyPrefix: {
    name: 'CACHE_KEY_PREFIX',
    kind: text,
    fallback: '',
    help: 'Stands before every key in the backend.',
  },
  expirationJitterMaxSeconds: {
    name: 'EXPIRATION_JITTER_MAX_SECONDS',
    kind: integer(0, 86_400),
    fallback: '300',
    help: 'Counters live up to this much longer than their window, so that they do not all end at once.',
  },
  nearLimitRatio: {
    name: 'NEAR_LIMIT_RATIO',
    kind: decimal(0, 1),
    fallback: '0.8',
    help: 'Hits above this share of a limit count as near.',
  },
  usePushStats: {
    name: 'USE_PUSHSTATS',
    aliases: ['USE_STATSD'],
    kind: booleanOrUnset,
    fallback: '',
    help: 'Send statistics to a statsd server; left out, on unless another sink is. `false` with no other sink writes them to standard output.',
  },
  pushStatsHost: {
    name: 'PUSHSTATS_HOST',
    aliases: ['STATSD_HOST'],
    kind: text,
    fallback: 'localhost',
    help: 'The statsd server, or the agent.',
  },
  pushStatsPort: {
    name: 'PUSHSTATS_PORT',
    aliases: ['STATSD_PORT'],
    kind: port,
    fallback: '8125',
    help: 'Its port.',
  },
  pushStatsProtocol: {
    name: 'PUSHSTATS_PROTOCOL',
    aliases: ['STATSD_PROTOCOL'],
    kind: oneOf('tcp', 'udp'),
    fallback: 'tcp',
    help: 'How the statsd server is reached; an agent always by UDP.',
  },
  extraTags: { name: 'EXTRA_TAGS', kind: pairs, fallback: '', help: 'Tags (labels) of every statistic.' },
  useAgentStats: {
    name: 'USE_AGENTSTATS',
    aliases: ['USE_DOG_STATSD'],
    kind: boolean,
    fallback: 'false',
    help: 'Send statistics with tags to an agent (DogStatsD).',
  },
  agentStatsMogrifiers: {
    name: 'AGENTSTATS_MOGRIFIERS',
    aliases: ['USE_AGENTSTATS_MOGRIFIERS', 'DOG_STATSD_MOGRIFIERS', 'USE_DOG_STATSD_MOGRIFIERS'],
    kind: variableNames,
    fallback: '',
    help: 'Rules in their order, each given by AGENTSTATS_MOGRIFIER_<NAME>_PATTERN, _NAME and _TAGS.',
  },
  usePullStats: {
    name: 'USE_PULLSTATS',
    aliases: ['USE_PROMETHEUS'],
    kind: boolean,
    fallback: 'false',
    help: 'Serve statistics as Prometheus metrics.',
  },
  pullStatsAddress: {
    name: 'PULLSTATS_ADDR',
    aliases: ['PROMETHEUS_ADDR'],
    kind: hostPort,
    fallback: ':9090',
    help: 'The address of the metrics.',
  },
  pullStatsPath: {
    name: 'PULLSTATS_PATH',
    aliases: ['PROMETHEUS_PATH'],
    kind: urlPath,
    fallback: '/metrics',
    help: 'Their path.',
  },
  pullStatsMapperFile: {
    name: 'PULLSTATS_MAPPER_YAML',
    aliases: ['PROMETHEUS_MAPPER_YAML'],
    kind: text,
    fallback: '',
    help: 'A mapping file in the format of statsd_exporter, instead of the default mapping.',
  },
  pullStatsTimersInMilliseconds: {
    name: 'PULLSTATS_RESPONSE_TIME_AS_MILLISECONDS',
    aliases: ['PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS'],
    kind: boolean,
    fallback: 'false',
    help: 'Show response times in milliseconds instead of seconds.',
  },
  statsFlushIntervalMs: {
    name: 'STATS_FLUSH_INTERVAL',
    kind: atLeast10Ms,
    fallback: '10s',
    help: 'How often statistics are sent or written.',
  },
  disableStats: {
    name: 'DISABLE_STATS',
    kind: boolean,
    fallback: 'false',
    help: 'Statistics are counted and shown at /stats, but written nowhere.',
  },
  healthyWithConfig: {
    name: 'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED',
    kind: boolean,
    fallback: 'false',
    help: 'Healthy only while at least one domain is loaded.',
  },
  shadowMode: {
    name: 'SHADOW_MODE',
    kind: boolean,
    fallback: 'false',
    help: 'The overall answer is always OK; what it would have been is counted.',
  },
  quotaMode: {
    name: 'QUOTA_MODE',
    kind: boolean,
    fallback: 'false',
    help: 'Every limit counts as a quota: over only when all are.',
  },
})

export type Settings = Values<typeof settings>

/** The names of settings that this version does not honour yet. */
export const notSupported: readonly RegExp[] = [
  /^(KVSTORE|REDIS)_(PERSECOND|TLS|SENTINEL|HEALTH_CHECK_ACTIVE_CONNECTION)/,
  /^MEM(STORE|CACHE)_/,
  /^(BACKEND_FAILURE_MODE|CONFIG_LAST_GOOD_FILE|WORKERS)$/,
  /^CONFIG_GRPC_XDS_(SERVER_USE_TLS|CLIENT_TLS_|SERVER_TLS_|CLIENT_ADDITIONAL_HEADERS)/,
  /^GRPC_(SERVER_USE_TLS|SERVER_TLS_|CLIENT_TLS_)/,
  /^(STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT|LocalCacheSizeInBytes|LOCAL_CACHE_SIZE_IN_BYTES)$/,
  /^TRACING_ENABLED$/,
  /^(LIMIT_RESPONSE_HEADERS_ENABLED|RESPONSE_DYNAMIC_METADATA)$/,
]

/**
 * To start as if a setting was not there could leave a connection open or a limit uncounted, so a process
 * that is given one of these must not start. One that is switched off says nothing.
 */
export function findNotSupported(
  env: Readonly<Record<string, string | undefined>>,
): readonly SettingProblem[] {
  const asked = Object.keys(env).filter(name => env[name] && boolean.parse(env[name]) !== false)
  const message = 'this version does not support the setting; take it out to go on without it'
  return asked
    .filter(name => notSupported.some(pattern => pattern.test(name)))
    .map(name => ({ name, message }))
}
