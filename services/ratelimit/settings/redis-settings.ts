import {
  boolean,
  durationAtLeast,
  durationMs,
  integer,
  type Kind,
  oneOf,
  settingsTable,
  text,
} from '@tollway/chassis/settings.ts'

/** In any letter case, as the reference takes it. */
const redisType: Kind<'single' | 'sentinel' | 'cluster'> = {
  allowed: 'single, sentinel or cluster',
  parse(value) {
    const type = value.toLowerCase()
    return type === 'single' || type === 'sentinel' || type === 'cluster' ? type : undefined
  },
}

const pipelineLimitHelp =
  'So many collected commands are written before the window is over; 0 for no such limit, or 50 without a window.'

/** Redis: the one for all limits, and a second one for limits per second where it is asked for. */
export const redisSettings = settingsTable({
  redisType: {
    name: 'KVSTORE_TYPE',
    aliases: ['REDIS_TYPE'],
    kind: redisType,
    fallback: 'single',
    help: 'How the Redis servers stand together: single, sentinel or cluster.',
  },
  redisSocketType: {
    name: 'KVSTORE_SOCKET_TYPE',
    aliases: ['REDIS_SOCKET_TYPE'],
    kind: oneOf('unix', 'tcp'),
    fallback: 'unix',
    help: 'What a bare name as the address of a single Redis is.',
  },
  redisUrl: {
    name: 'KVSTORE_URL',
    aliases: ['REDIS_URL'],
    kind: text,
    fallback: '/var/run/nutcracker/ratelimit.sock',
    help: 'host:port, a unix socket, redis(s)://…; sentinel: master,host:port,…; cluster: host:port,…',
    secret: true,
  },
  redisAuth: {
    name: 'KVSTORE_AUTH',
    aliases: ['REDIS_AUTH'],
    kind: text,
    fallback: '',
    help: '`password`, or `user:password`.',
    secret: true,
  },
  redisSentinelAuth: {
    name: 'KVSTORE_SENTINEL_AUTH',
    aliases: ['REDIS_SENTINEL_AUTH'],
    kind: text,
    fallback: '',
    help: 'The same for the sentinels.',
    secret: true,
  },
  redisTls: {
    name: 'KVSTORE_TLS',
    aliases: ['REDIS_TLS'],
    kind: boolean,
    fallback: 'false',
    help: 'Reach Redis over TLS.',
  },
  redisTimeoutMs: {
    name: 'KVSTORE_TIMEOUT',
    aliases: ['REDIS_TIMEOUT'],
    kind: durationAtLeast(10),
    fallback: '1s',
    help: 'A connection that takes longer to be made, or owes answers for so long, is given up.',
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
    help: pipelineLimitHelp,
  },
  redisTlsCertFile: {
    name: 'KVSTORE_TLS_CLIENT_CERT',
    aliases: ['REDIS_TLS_CLIENT_CERT'],
    kind: text,
    fallback: '',
    help: 'The file of the own certificate.',
  },
  redisTlsKeyFile: {
    name: 'KVSTORE_TLS_CLIENT_KEY',
    aliases: ['REDIS_TLS_CLIENT_KEY'],
    kind: text,
    fallback: '',
    help: 'The file of its key.',
  },
  redisTlsCaFile: {
    name: 'KVSTORE_TLS_CACERT',
    aliases: ['REDIS_TLS_CACERT'],
    kind: text,
    fallback: '',
    help: 'The file of the authorities that the servers may come from.',
  },
  redisTlsSkipHostnameVerification: {
    name: 'KVSTORE_TLS_SKIP_HOSTNAME_VERIFICATION',
    aliases: ['REDIS_TLS_SKIP_HOSTNAME_VERIFICATION'],
    kind: boolean,
    fallback: 'false',
    help: 'Accept any name in the certificate of a server.',
  },
  redisPerSecond: {
    name: 'KVSTORE_PERSECOND',
    aliases: ['REDIS_PERSECOND'],
    kind: boolean,
    fallback: 'false',
    help: 'Count limits per second in a second Redis, and all others in the first.',
  },
  redisPerSecondType: {
    name: 'KVSTORE_PERSECOND_TYPE',
    aliases: ['REDIS_PERSECOND_TYPE'],
    kind: redisType,
    fallback: 'single',
    help: 'How the Redis servers for limits per second stand together: single, sentinel or cluster.',
  },
  redisPerSecondSocketType: {
    name: 'KVSTORE_PERSECOND_SOCKET_TYPE',
    aliases: ['REDIS_PERSECOND_SOCKET_TYPE'],
    kind: oneOf('unix', 'tcp'),
    fallback: 'unix',
    help: 'The same of the one for limits per second.',
  },
  redisPerSecondUrl: {
    name: 'KVSTORE_PERSECOND_URL',
    aliases: ['REDIS_PERSECOND_URL'],
    kind: text,
    fallback: '/var/run/nutcracker/ratelimitpersecond.sock',
    help: 'Its address, likewise.',
    secret: true,
  },
  redisPerSecondAuth: {
    name: 'KVSTORE_PERSECOND_AUTH',
    aliases: ['REDIS_PERSECOND_AUTH'],
    kind: text,
    fallback: '',
    help: '`password`, or `user:password`.',
    secret: true,
  },
  redisPerSecondSentinelAuth: {
    name: 'KVSTORE_PERSECOND_SENTINEL_AUTH',
    aliases: ['REDIS_PERSECOND_SENTINEL_AUTH'],
    kind: text,
    fallback: '',
    help: 'The same for the sentinels.',
    secret: true,
  },
  redisPerSecondTls: {
    name: 'KVSTORE_PERSECOND_TLS',
    aliases: ['REDIS_PERSECOND_TLS'],
    kind: boolean,
    fallback: 'false',
    help: 'Reach it over TLS.',
  },
  redisPerSecondTimeoutMs: {
    name: 'KVSTORE_PERSECOND_TIMEOUT',
    aliases: ['REDIS_PERSECOND_TIMEOUT'],
    kind: durationAtLeast(10),
    fallback: '1s',
    help: 'A connection that takes longer to be made, or owes answers for so long, is given up.',
  },
  redisPerSecondPipelineWindowMs: {
    name: 'KVSTORE_PERSECOND_PIPELINE_WINDOW',
    aliases: ['REDIS_PERSECOND_PIPELINE_WINDOW'],
    kind: durationMs,
    fallback: '0',
    help: 'How long commands are collected before they are written; 0 for one turn of the event loop.',
  },
  redisPerSecondPipelineLimit: {
    name: 'KVSTORE_PERSECOND_PIPELINE_LIMIT',
    aliases: ['REDIS_PERSECOND_PIPELINE_LIMIT'],
    kind: integer(0, 1_000_000),
    fallback: '0',
    help: pipelineLimitHelp,
  },
  redisHealthCheckActiveConnection: {
    name: 'KVSTORE_HEALTH_CHECK_ACTIVE_CONNECTION',
    aliases: ['REDIS_HEALTH_CHECK_ACTIVE_CONNECTION'],
    kind: boolean,
    fallback: 'false',
    help: 'Unhealthy whenever Redis does not answer; otherwise only until it has answered once.',
  },
})

/** What the reference has and nobody needs here: accepted, so that a Deployment moves over unedited. */
export const redisCompatibilitySettings = settingsTable({
  redisPoolSize: {
    name: 'KVSTORE_POOL_SIZE',
    aliases: ['REDIS_POOL_SIZE'],
    kind: integer(1, 100_000),
    fallback: '10',
    help: 'No effect: one connection to each master carries all calls, and what comes together is one write.',
  },
  redisPoolOnEmptyBehavior: {
    name: 'KVSTORE_POOL_ON_EMPTY_BEHAVIOR',
    aliases: ['REDIS_POOL_ON_EMPTY_BEHAVIOR'],
    kind: oneOf('WAIT'),
    fallback: 'WAIT',
    help: 'No effect: no call has a connection for itself. The reference refuses others, too.',
  },
  redisClusterPipelineParallelism: {
    name: 'KVSTORE_CLUSTER_PIPELINE_PARALLELISM',
    aliases: ['REDIS_CLUSTER_PIPELINE_PARALLELISM'],
    kind: integer(0, 100_000),
    fallback: '1',
    help: 'No effect: the parts of a call go to all their masters at once.',
  },
  redisPerSecondPoolSize: {
    name: 'KVSTORE_PERSECOND_POOL_SIZE',
    aliases: ['REDIS_PERSECOND_POOL_SIZE'],
    kind: integer(1, 100_000),
    fallback: '10',
    help: 'No effect: one connection to each master carries all calls, and what comes together is one write.',
  },
  redisPerSecondPoolOnEmptyBehavior: {
    name: 'KVSTORE_PERSECOND_POOL_ON_EMPTY_BEHAVIOR',
    aliases: ['REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR'],
    kind: oneOf('WAIT'),
    fallback: 'WAIT',
    help: 'No effect: no call has a connection for itself. The reference refuses others, too.',
  },
  redisPerSecondClusterPipelineParallelism: {
    name: 'KVSTORE_PERSECOND_CLUSTER_PIPELINE_PARALLELISM',
    aliases: ['REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM'],
    kind: integer(0, 100_000),
    fallback: '1',
    help: 'No effect: the parts of a call go to all their masters at once.',
  },
  redisStartupInitialMs: {
    name: 'KVSTORE_STARTUP_INITIAL_INTERVAL',
    aliases: ['REDIS_STARTUP_INITIAL_INTERVAL'],
    kind: durationMs,
    fallback: '1s',
    help: 'No effect: the service tries again after 50 ms to 1 s, for ever, and is unhealthy until then.',
  },
  redisStartupMaxMs: {
    name: 'KVSTORE_STARTUP_MAX_INTERVAL',
    aliases: ['REDIS_STARTUP_MAX_INTERVAL'],
    kind: durationMs,
    fallback: '30s',
    help: 'No effect: the service tries again after 50 ms to 1 s, for ever, and is unhealthy until then.',
  },
  redisStartupMaxElapsedMs: {
    name: 'KVSTORE_STARTUP_MAX_ELAPSED_TIME',
    aliases: ['REDIS_STARTUP_MAX_ELAPSED_TIME'],
    kind: durationMs,
    fallback: '0',
    help: 'No effect: the service tries again after 50 ms to 1 s, for ever, and is unhealthy until then.',
  },
})
