import {
  boolean,
  durationAtLeast,
  hostPort,
  integer,
  oneOf,
  pairs,
  type SettingKind,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'

/** For the interval of a repeated task, which at shorter intervals could take all the time of the process. */
const atLeast10Ms = durationAtLeast(10)

const booleanOrUnset: SettingKind<boolean | ''> = {
  allowed: `${boolean.allowed}, or empty`,
  parse: value => (value === '' ? '' : boolean.parse(value)),
}

const variableNames: SettingKind<readonly string[]> = {
  allowed: 'a list such as ONE,TWO of letters, digits and _',
  parse(value) {
    const names = value === '' ? [] : value.split(',').map(name => name.trim())
    return names.every(name => /^\w+$/.test(name)) ? names : undefined
  },
}

const urlPath: SettingKind<string> = {
  allowed: 'a path such as /metrics',
  parse: value => (/^\/[^?#\s]*$/.test(value) ? value : undefined),
}

export const statisticsSettings = settingsTable({
  usePushStats: {
    name: 'USE_PUSHSTATS',
    aliases: ['USE_STATSD'],
    kind: booleanOrUnset,
    fallback: '',
    help: 'Send statistics to a statsd server. By default, they are sent only if no other sink is enabled.',
  },
  pushStatsHost: {
    name: 'PUSHSTATS_HOST',
    aliases: ['STATSD_HOST'],
    kind: text,
    fallback: 'localhost',
    help: 'The host of the statsd server or the agent.',
  },
  pushStatsPort: {
    name: 'PUSHSTATS_PORT',
    aliases: ['STATSD_PORT'],
    kind: integer(1, 65_535),
    fallback: '8125',
    help: 'The port of the statsd server or the agent.',
  },
  pushStatsProtocol: {
    name: 'PUSHSTATS_PROTOCOL',
    aliases: ['STATSD_PROTOCOL'],
    kind: oneOf('tcp', 'udp'),
    fallback: 'tcp',
    help: 'The protocol of the statsd server. An agent always uses UDP.',
  },
  extraTags: {
    name: 'EXTRA_TAGS',
    kind: pairs,
    fallback: '',
    help: 'Additional tags (labels) of every statistic.',
  },
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
    help:
      'The names of the rules in order. AGENTSTATS_MOGRIFIER_<NAME>_PATTERN, _NAME and _TAGS define ' +
      'each.',
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
    help:
      'The path of the metrics. The port also serves /livez, 200 while the process runs, and ' +
      '/healthcheck.',
  },
  pullStatsMapperFile: {
    name: 'PULLSTATS_MAPPER_YAML',
    aliases: ['PROMETHEUS_MAPPER_YAML'],
    kind: text,
    fallback: '',
    help: 'A mapping file in the format of statsd_exporter, which replaces the default mapping.',
  },
  pullStatsTimersInMilliseconds: {
    name: 'PULLSTATS_RESPONSE_TIME_AS_MILLISECONDS',
    aliases: ['PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS'],
    kind: boolean,
    fallback: 'false',
    help: 'Report response times in milliseconds instead of seconds.',
  },
  statsFlushIntervalMs: {
    name: 'STATS_FLUSH_INTERVAL',
    kind: atLeast10Ms,
    fallback: '10s',
    help: 'The interval at which statistics are sent, or written to the log.',
  },
  disableStats: {
    name: 'DISABLE_STATS',
    kind: boolean,
    fallback: 'false',
    help: 'Count statistics, and show them at /stats, but do not send them.',
  },
})

export const reportSettings = settingsTable({
  reportDecisions: {
    name: 'DECISION_REPORTS',
    kind: boolean,
    fallback: 'true',
    help: 'Report totals of decisions to the operator of the feed every 5 s, and answer its queries.',
  },
  decisionTap: {
    name: 'DECISION_TAP',
    kind: boolean,
    fallback: 'false',
    help:
      'Allow the operator to read a sample of decisions with their descriptors, at most 50/s for ' +
      'each pod.',
  },
  decisionRecordingBytes: {
    name: 'DECISION_RECORDING_BYTES',
    kind: integer(0, 2 ** 30),
    fallback: `${16 * 1024 * 1024}`,
    help:
      'The memory in bytes for the latest calls, which a what-if replays, of all workers together. ' +
      '0 disables the recording.',
  },
  hashReportedKeys: {
    name: 'DECISION_KEYS_HASHED',
    kind: boolean,
    fallback: 'false',
    help: 'Report hashes instead of the values of descriptors, which may be personal data.',
  },
  reportedKeysSalt: {
    name: 'DECISION_KEYS_SALT',
    kind: text,
    fallback: '',
    help: 'The secret salt of the hashes of values. All processes need the same one.',
    secret: true,
  },
})
